"""A package as a registry: the name of a module's file is the name that parameters know it by."""

import pkgutil
from importlib import import_module
from types import ModuleType


def names(package: ModuleType) -> list[str]:
    """The modules of `package`, sorted. Its sub-packages and `base`, which its modules share, are not listed."""
    modules = pkgutil.iter_modules(package.__path__)
    return sorted(module.name for module in modules if not module.ispkg and module.name != "base")


def find(package: ModuleType, name: str, what: str) -> ModuleType:
    """Import the module `name` of `package`.

    Args:
        what: the parameter that names it, for the message, e.g. "method".

    Raises:
        ValueError: there is no such module.
    """
    known = names(package)
    if name not in known:
        raise ValueError(f"{what}: {name!r} is not allowed; it must be one of {', '.join(known)}")
    return import_module(f"{package.__name__}.{name}")
