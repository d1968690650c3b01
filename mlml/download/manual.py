"""Files that cannot be downloaded: what a user must bring by hand, checked before anything else happens."""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, Field

from mlml.core.errors import raise_errors
from mlml.core.params import Section


def _path(value: str) -> str:
    path = PurePosixPath(value)
    if not path.parts or path.is_absolute() or ".." in path.parts:
        raise ValueError("must be a path below the data set's folder; a folder ends in /")
    return value


def _text(value: str) -> str:
    line = " ".join(value.split())
    if not line:
        raise ValueError("must say where to get it")
    return line


_Files = Annotated[list[Annotated[str, AfterValidator(_path)]], Field(min_length=1)]


class Brought(Section):
    """An entry of ``archives`` that speaks of files to bring by hand, in YAML::

        - bring: [labels.csv]
          or: [labels.npy, names.npy]
          from: whom to ask, in words, with the address

    They stay where they are, in the data set's own folder, which the stage `prepare` reads.

    Attributes:
        bring: paths below that folder, all needed; one that ends in / is a folder with something in it.
        instead: ``or``, paths that will do instead, all of them.
        source: ``from``, where to get them.
    """

    bring: _Files
    instead: _Files | None = Field(None, alias="or")
    source: Annotated[str, AfterValidator(_text)] = Field(alias="from")


def check(items: Sequence[Brought], folder: Path) -> None:
    """See whether all that must be brought is in `folder`, the data set's own.

    Raises:
        ValueError: something is missing; a line for each of `items`, with its paths and where to get it.
    """
    faults = []
    for item in items:
        ways = [[_lack(folder, name) for name in way] for way in (item.bring, item.instead) if way]
        missing = [[lack for lack in way if lack] for way in ways]
        if all(missing):
            faults.append(f"{'; or instead: '.join(', '.join(way) for way in missing)} (get it from: {item.source})")
    raise_errors(f"{folder}: these cannot be downloaded, bring them under these names", faults)


def _lack(folder: Path, name: str) -> str:
    """The path of what is missing, or nothing."""
    path = folder / name
    if not name.endswith("/"):
        return "" if path.is_file() else f"{path}{' (it is a folder)' if path.is_dir() else ''}"
    if not path.is_dir():
        return f"{path}/{' (it is a file)' if path.exists() else ''}"
    return "" if any(path.iterdir()) else f"{path}/ (it is empty)"
