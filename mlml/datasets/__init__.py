"""Data sets: the section on images in dataset.yaml, and the reader that it names."""

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import Field

from mlml.core import registry
from mlml.core.params import Section, parse_options
from mlml.datasets import readers
from mlml.datasets.source import Source
from mlml.images.store import Size, Storage

__all__ = ["Layout", "Source", "names", "options_of", "read"]


class Layout(Section):
    """Section ``images`` of dataset.yaml.

    Attributes:
        reader: one of `names()`.
        image_size: edge S of the prepared images in pixels.
        storage: how prepared images are kept: "rows", decoded, or "encoded", unchanged, for data sets that do not fit
            the disk decoded.
        options: the reader's options.
    """

    reader: str
    image_size: Size
    storage: Storage = "rows"
    options: dict[str, Any] = Field(default_factory=dict)


def names() -> list[str]:
    """The names of all readers, sorted."""
    return registry.names(readers)


def options_of(name: str, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """All options of the reader called `name`: the given ones, and the defaults of the others.

    Raises:
        ValueError: no such reader or option, or an option out of range.
    """
    return parse_options(_reader(name).read, options, "images.options")


def _reader(name: str) -> ModuleType:
    return registry.find(readers, name, "images.reader")


def read(name: str, folder: Path, archives: Path, options: Mapping[str, Any] | None = None) -> Source:
    """Read a data set with the reader called `name`.

    A reader is a module with a function `read` that takes the two folders and, as keyword-only arguments, its options.

    Args:
        folder: the data set's folder, with the user's files.
        archives: the folder of the downloaded archives.
        options: the reader's options.

    Raises:
        ValueError: no such reader or option, or files of another form.
    """
    source: Source = _reader(name).read(folder, archives, **options_of(name, options))
    return source
