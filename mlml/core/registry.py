"""A package as a registry: methods and readers are found by the name of their module."""

import pkgutil
from importlib import import_module
from types import ModuleType


def names(package: ModuleType) -> list[str]:
    """The modules of `package`, sorted, without sub-packages and `base`, which the modules share."""
    modules = pkgutil.iter_modules(package.__path__)
    return sorted(module.name for module in modules if not module.ispkg and module.name != "base")


def find(package: ModuleType, name: str, parameter: str) -> ModuleType:
    """Import the module `name` of `package`.

    Args:
        parameter: the one that `name` is the value of, for the message.

    Raises:
        ValueError: there is no such module.
    """
    allowed = names(package)
    if name not in allowed:
        raise ValueError(f"{parameter}: {name!r} is not allowed; it must be one of {', '.join(allowed)}")
    return import_module(f"{package.__name__}.{name}")
