"""Finds image files by the names that label files give them, which tools and systems write in several ways."""

import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path
from urllib.parse import unquote

from mlml.datasets.files.regular_files import is_utf8, kind

# fmt: off
SUFFIXES = frozenset((
    ".jpg", ".jpeg", ".jfif", ".mpo", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm",
    ".avif", ".jp2", ".j2k", ".heic", ".heif",
))
# fmt: on
# Signs that no name has, in keys: any suffix of an image; any suffix and case
_ANY, _NEAR = "/", "//"


def comparable(name: str) -> str:
    """What two names have in common that differ in Unicode form, blanks around them or case of the suffix only."""
    text = name if is_utf8(name) else os.fsencode(name).decode("latin-1")
    stem, suffix = os.path.splitext(unicodedata.normalize("NFC", text).strip())
    return stem + (suffix.lower() if suffix.lower() in SUFFIXES else suffix)


def is_picture(name: str) -> bool:
    """Whether a file is an image by its name, and not hidden."""
    return not name.startswith(".") and os.path.splitext(comparable(name))[1] in SUFFIXES


class SeveralFiles(ValueError):
    """More than one file fits a name."""


class ImageFiles:
    """The files below a folder, found by name. Each folder is listed at most once; hidden names count only literally.

    Attributes:
        root: the folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._base = os.path.realpath(root)
        self._starts = tuple(os.path.join(base, "") for base in (self._base, os.path.abspath(root)))
        self._names = cache(self._list)

    def find(self, name: str) -> str:
        r"""The path, below `root`, of the file that a label file calls `name`.

        That is the file at this path, or else the only one whose path differs in no more than

        - the Unicode form (NFC, NFD), blanks at the ends of a name, \ for /, the case of the suffix;
        - a suffix that `name` lacks: ``000001.jpg`` for ``000001``;
        - leading folders that are not there: ``a.jpg`` for ``images/a.jpg``, ``../../upload/a.jpg``, ``C:\a.jpg`` or
          ``https://host/a.jpg``.

        Without such a file, and if no folder of the path is there, it is the only picture anywhere below `root` whose
        file name differs in no more than that: ``images_001/images/a.png`` for ``a.png`` or ``/upload/1/a.png``.

        Raises:
            ValueError: no such file, or several (`SeveralFiles`); the message goes on after "image 'a.jpg'".
        """
        literal = name.replace("\0", "\ufffd")  # a NUL in a path raises another error
        if self.has(literal):
            return _in_utf8(literal)
        path = os.path.join(self._base, literal)
        inside, there = self.holds(path), os.path.isfile(path)
        parts = _parts(literal)
        matches = self._search(parts)
        if len(matches) > 1:
            raise SeveralFiles(f"could be {matches[0]!r} or {matches[1]!r}; write the name in full")
        if matches and not there:
            return _in_utf8(matches[0])
        if "://" in name:
            raise ValueError(f"is on the web; put it into {self.root}")
        if not inside:
            also = f", or write {matches[0]!r} if that is the same" if matches else ""
            raise ValueError(f"lies outside of {self.root}; put it into the folder{also}")
        raise ValueError(f"is missing{self._reason(path, parts)}")

    def has(self, name: str) -> bool:
        """Whether there is a file below `root` at this very path."""
        path = os.path.join(self._base, name)
        return os.path.isfile(path) and self.holds(path)

    def unnamed(self, named: Collection[str]) -> list[str]:
        """The paths below `root` of the image files whose absolute path, links followed or not, is not in `named`."""
        paths = [(name, os.path.join(self._base, name)) for name in self._pictures]
        return [
            name
            for name, path in paths
            if path not in named and not (os.path.islink(path) and os.path.realpath(path) in named)
        ]

    def absolute(self, path: str) -> tuple[str, str]:
        """The absolute path of a path below `root`: with the links in it, and followed."""
        joined = os.path.join(self._base, path)
        return os.path.normpath(joined), os.path.realpath(joined)

    def holds(self, path: str) -> bool:
        """Whether an absolute path is `root` or lies below it."""
        return os.path.join(os.path.normpath(path), "").startswith(self._starts)

    def _search(self, parts: list[str]) -> list[str]:
        """The files that fit the path, or else the longest end of it, or else the file name in any folder.

        If a folder of the path is there, only files in it fit.
        """
        for first in range(len(parts)):
            files = [path for path in self._like(parts[first:]) if os.path.isfile(os.path.join(self._base, path))]
            if files:
                exact = os.path.join(*parts[first:])
                return [exact] if exact in files else files
            if first + 1 < len(parts) and any(map(self._is_folder, self._like([parts[first]]))):
                return []
        return self._anywhere(parts[-1]) if parts else []

    def _anywhere(self, name: str) -> list[str]:
        """The paths of the pictures in any folder that nearly have this name."""
        paths = [path for key in _keys(name) for path in self._by_name.get(key, [])]
        return [path for path in paths if os.path.isfile(os.path.join(self._base, path))]

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        return _by_form(self._pictures)

    @cached_property
    def _pictures(self) -> list[str]:
        return sorted(os.path.relpath(path, self._base) for path in pictures(self._base))

    def _like(self, parts: list[str]) -> list[str]:
        """The paths of files and folders that are nearly this one."""
        paths = [""]
        for part in parts:
            known = [(path, self._names(path)) for path in paths]
            keys = _keys(part)
            paths = [os.path.join(path, name) for path, names in known for key in keys for name in names.get(key, [])]
        return paths

    def _is_folder(self, path: str) -> bool:
        return os.path.isdir(os.path.join(self._base, path))

    def _list(self, folder: str) -> dict[str, list[str]]:
        path = self.root / folder
        names = sorted(os.listdir(path)) if path.is_dir() else []
        return _by_form(name for name in names if not name.startswith("."))

    def _reason(self, path: str, parts: list[str]) -> str:
        """A likely reason why the file at `path` is missing, for a message."""
        if what := kind(path):
            return f": it is {what}"
        if os.path.islink(path):
            return ": it is a link that leads nowhere"
        *folders, name = parts or [""]
        key = _NEAR + os.path.splitext(comparable(name))[0].casefold()
        near = self._names("/".join(folders)).get(key) or self._anywhere(name) or self._by_name.get(key)
        return f"; there is {near[0]!r}" if near else ""


def pictures(folder: str | Path) -> Iterator[str]:
    """The paths of all files below `folder` with the suffix of an image, but for hidden ones and what macOS adds."""
    for path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "__MACOSX"))]
        yield from (os.path.join(path, name) for name in names if is_picture(name))


def _keys(name: str) -> list[str]:
    """What to look a name up under in `_by_form`."""
    form = comparable(name)
    return [form] if os.path.splitext(form)[1] in SUFFIXES else [form, form + _ANY]


def _by_form(paths: Iterable[str]) -> dict[str, list[str]]:
    """Paths by the form of their file names, with and without the suffix of an image, and without upper case."""
    forms = defaultdict(list)
    for path in paths:
        stem, suffix = os.path.splitext(comparable(os.path.basename(path)))
        forms[stem + suffix].append(path)
        if suffix in SUFFIXES:
            forms[stem + _ANY].append(path)
            forms[_NEAR + stem.casefold()].append(path)
    return dict(forms)


def _parts(name: str) -> list[str]:
    """The folders and the file of a path or address, without leading ``..``."""
    if "://" in name:
        name = unquote(re.split(r"[?#]", name.partition("://")[2])[0])
    path = os.path.normpath(name.replace("\\", "/"))
    return [part for part in path.split("/") if part not in ("", ".", "..")]


def _in_utf8(path: str) -> str:
    if not is_utf8(path):
        raise ValueError(f"is the file {os.fsencode(path)!r}, whose name is not UTF-8; rename the file")
    return path
