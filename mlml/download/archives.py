"""Section `archives` of a data set's file: what to download, and what the user brings."""

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainValidator

from mlml.core.errors import raise_errors
from mlml.core.params import Section


def _matches(pattern: str, rule: str) -> AfterValidator:
    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(rule)
        return value

    return AfterValidator(check)


def _relative(value: str) -> str:
    path = PurePosixPath(value)
    if not path.parts or path.is_absolute() or ".." in path.parts:
        raise ValueError("must be a path below the data set's folder; a folder ends in /")
    return value


def _one_line(value: str) -> str:
    if not value.strip():
        raise ValueError("must say where to get it")
    return " ".join(value.split())


_FileName = Annotated[str, _matches(r"(?!\.{1,2}$)[^/\\\0-\x1f\x7f]+", "must be a file name without a folder")]
_Sha256 = Annotated[str, _matches(r"[0-9a-f]{64}", "must be 64 lowercase hex digits")]
_URL_RULE = "must be http://..., https://..., file:folder/name or file:///folder/name"
_Url = Annotated[str, _matches(r"https?://[^/\s][^\s\0-\x1f\x7f]*|file:(?!//[^/]|/*$)[^\0-\x1f\x7f]+", _URL_RULE)]
_Paths = Annotated[list[Annotated[str, AfterValidator(_relative)]], Field(min_length=1)]


class Archive(Section):
    """A file to download.

    Attributes:
        file: its name.
        urls: tried in this order. ``file:PATH`` or ``file:///PATH`` is a local copy; PATH is taken literally, without
            %-escapes, and may be relative to the working directory.
        bytes: its size. (Not called `size`: DVC's run cache ignores parameters of that name.)
        sha256: its SHA-256, in lowercase hex.
    """

    file: _FileName
    urls: list[_Url] = Field(min_length=1)
    bytes: int = Field(gt=0)
    sha256: _Sha256


class ManualFiles(Section):
    """Files that cannot be downloaded; the user puts them into the data set's folder. In YAML::

        - bring: [labels.csv]
          or: [labels.npy, names.npy]
          from: whom to ask, in words, with the address

    Attributes:
        bring: paths below the folder, all of them needed; one that ends in / is a folder that must not be empty.
        alternative: ``or``, paths that do instead, all of them needed.
        source: ``from``, where to get the files.
    """

    bring: _Paths
    alternative: _Paths | None = Field(None, alias="or")
    source: Annotated[str, AfterValidator(_one_line)] = Field(alias="from")

    def missing(self, folder: Path) -> str:
        """The missing paths of each alternative, and where to get them; empty if one alternative is complete."""
        alternatives = [self.bring, self.alternative] if self.alternative else [self.bring]
        missing = [[text for name in names if (text := _missing(folder, name))] for names in alternatives]
        return f"{'; or instead: '.join(map(', '.join, missing))} (get it from: {self.source})" if all(missing) else ""


def _missing(folder: Path, name: str) -> str:
    path = folder / name
    if not name.endswith("/"):
        return "" if path.is_file() else f"{path}{' (it is a folder)' if path.is_dir() else ''}"
    if not path.is_dir():
        return f"{path}/{' (it is a file)' if path.exists() else ''}"
    return "" if any(path.iterdir()) else f"{path}/ (it is empty)"


def _entry(value: Any) -> Archive | ManualFiles:
    # By the key: a plain union would report the faults of both classes.
    return (ManualFiles if isinstance(value, Mapping) and "bring" in value else Archive).model_validate(value)


class Download(Section):
    """The whole section: archives to download and files that the user brings."""

    archives: list[Annotated[Archive | ManualFiles, PlainValidator(_entry)]]

    @property
    def to_fetch(self) -> list[Archive]:
        return [entry for entry in self.archives if isinstance(entry, Archive)]

    def check_manual_files(self, folder: Path) -> None:
        """Check that the user brought all files to `folder`, the data set's.

        Raises:
            ValueError: files are missing; a line for each entry.
        """
        entries = [entry for entry in self.archives if isinstance(entry, ManualFiles)]
        missing = [text for entry in entries if (text := entry.missing(folder))]
        raise_errors(f"{folder}: these cannot be downloaded, bring them under these names", missing)
