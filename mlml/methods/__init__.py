"""The methods by name: one file, one method, one paper. The file's name is the method's name."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

from mlml.core import registry
from mlml.core.params import parse_options
from mlml.methods.base import Batch, Method, TrainLabels

__all__ = ["Batch", "Method", "TrainLabels", "build", "names", "options_of"]


def names() -> list[str]:
    """The names of all methods, sorted."""
    return registry.names(sys.modules[__name__])


def options_of(name: str, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """All options of the method called `name`: the given ones, and the defaults of the others.

    Raises:
        ValueError: no such method or option, or an option out of range.
    """
    return parse_options(_make(name), options, f"methods.{name}")


def _make(name: str) -> Callable[..., Method]:
    make: Callable[..., Method] = registry.find(sys.modules[__name__], name, "method").method
    return make


def build(name: str, train: TrainLabels, options: Mapping[str, Any] | None = None) -> Method:
    """Make the method called `name` for these training labels.

    Each method's module holds a `method`: a callable that takes the `TrainLabels` and, as keyword-only
    arguments, the options.

    Args:
        name: one of `names()`.
        train: the observed labels of the whole training set, and what is known about the run.
        options: the method's own options; those not given keep their defaults.

    Raises:
        ValueError: no such method or option, an option out of range, or labels that the method cannot use.
    """
    parsed = options_of(name, options)
    try:
        method: Method = _make(name)(train, **parsed)
    except ValueError as error:
        raise ValueError(f"methods.{name}: {error}") from None
    method.name = name
    return method
