"""What is to be fetched, and the part of it that is there."""

import hashlib
import logging
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from mlml.core.params import Section
from mlml.core.progress import progress

logger = logging.getLogger(__name__)

BIG = 1 << 28  # bytes from which hashing shows its progress
CHUNK = 1 << 18


def _like(pattern: str, rule: str) -> AfterValidator:
    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(rule)
        return value

    return AfterValidator(check)


_Name = Annotated[str, _like(r"(?!\.{1,2}$)[^/\\\0]+", "must be a file name without a folder")]
_Sha256 = Annotated[str, _like(r"[0-9a-f]{64}", "must be 64 lowercase hex digits")]
_Url = Annotated[
    str,
    _like(
        r"https?://[^/\s]\S*|file:(?!//[^/]|/*$).+",
        "must be http://..., https://..., file:folder/name or file:///folder/name",
    ),
]


class Archive(Section):
    """A file to fetch: its name, its addresses in the order to try them, its bytes and its sha256.

    An address ``file:PATH`` is a copy at hand. PATH is taken as it stands, without %-escapes, absolute or
    relative to the working directory; an absolute one may also be written ``file://PATH``. (`bytes` is not called
    size: DVC's run cache ignores parameters of that name.)
    """

    file: _Name
    urls: list[_Url] = Field(min_length=1)
    bytes: int = Field(gt=0)
    sha256: _Sha256


class Refused(Exception):
    """This address does not give the file."""


class Broken(Exception):
    """The transfer ended early; what came is kept."""


class Part:
    """The first bytes of the file, and which addresses they came from."""

    def __init__(self, archive: Archive, folder: Path) -> None:
        self.archive = archive
        self.path = folder / f"{archive.sha256}.part"
        self._origin = folder / f"{archive.sha256}.from"
        self.sources = {"an earlier run"} if self.size else set()

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def kept(self) -> str:
        return (
            f"{self.size:,} of {self.archive.bytes:,} bytes are kept in {self.path}" if self.size else "nothing is kept"
        )

    def version(self, url: str) -> str:
        """The ETag or Last-Modified of the answer of `url` that these bytes began with, or nothing."""
        lines = self._origin.read_text("utf-8").split("\n") if self._origin.exists() else []
        return lines[1] if lines[0:1] == [url] and len(lines) == 3 else ""

    def write(self, url: str, start: int, chunks: Iterable[bytes], version: str = "") -> None:
        """Put `chunks` from byte `start` on, which is 0 or the size; returns when the size is the archive's."""
        total = self.archive.bytes
        logger.info(f"{self.archive.file}: from {url}" + (f", resuming at byte {start:,}" if start else ""))
        with self.path.open("ab" if start else "wb") as file, progress(self.archive.file, total, "B", start) as add:
            if start == 0:  # after the old bytes are gone: a kill in between must not give them a new origin
                self.sources.clear()
                self._origin.write_text(f"{url}\n{version}\n", "utf-8")
            self.sources.add(url)
            for chunk in chunks:
                wrote = file.write(chunk[: total - start])
                file.flush()
                add(wrote)
                start += wrote
                if start == total:  # more may come, without end; the sha256 judges what did
                    return
        raise Broken("the answer ended")

    def sha256(self, path: Path) -> str:
        digest = hashlib.sha256()
        total = self.archive.bytes
        with path.open("rb") as file, progress(f"checking {self.archive.file}", total, "B", shown=total >= BIG) as add:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                add(len(chunk))
        return digest.hexdigest()

    def verified(self, path: Path) -> bool:
        return path.stat().st_size == self.archive.bytes and self.sha256(path) == self.archive.sha256

    def clear(self) -> None:
        for path in (self.path, self._origin):
            path.unlink(missing_ok=True)
        self.sources.clear()
