"""Finding a module by its name in a package: the file's name is the registry."""

import pkgutil
from collections.abc import Collection
from importlib import import_module
from types import ModuleType


def names(package: ModuleType, without: Collection[str]) -> list[str]:
    """Names of the modules of `package`, sorted, but for those in `without`."""
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__) if module.name not in without)


def find(package: ModuleType, name: str, without: Collection[str], what: str) -> ModuleType:
    """The module `name` of `package`.

    Raises:
        ValueError: none of that name; `what` says what was looked for, e.g. "method".
    """
    known = names(package, without)
    if name not in known:
        raise ValueError(f"{what}: {name!r} is not allowed; it must be one of {', '.join(known)}")
    return import_module(f"{package.__name__}.{name}")
