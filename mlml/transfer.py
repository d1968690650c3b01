"""Moving the bytes of one archive from one address into its partial file."""

import errno
import hashlib
import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated

import requests
from pydantic import AfterValidator, Field
from urllib3.exceptions import HTTPError

from mlml.params import Section
from mlml.progress import progress, say

CONNECT, READ = 15.0, 60.0  # seconds; READ is the longest silence, not the whole transfer
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
        say(f"{self.archive.file}: from {url}" + (f", resuming at byte {start:,}" if start else ""))
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


def copy(part: Part, url: str) -> None:
    path = Path(re.sub("^file:(//(?=/))?", "", url))
    try:
        file = path.open("rb")
    except OSError as error:
        raise Refused(f"{path.absolute()} cannot be read: {error.strerror}") from None
    with file:
        _same(os.fstat(file.fileno()).st_size, part)
        file.seek(part.size)
        part.write(url, part.size, iter(lambda: file.read(CHUNK), b""))


def get(part: Part, url: str, session: requests.Session, resume: bool = True) -> None:
    start = part.size if resume else 0
    headers = {"Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
        if version := part.version(url):
            headers["If-Range"] = version
    try:
        answer = session.get(url, headers=headers, stream=True, timeout=(CONNECT, READ))
    except requests.RequestException as error:
        raise _unreachable(error) from None
    with answer:
        code, fields = answer.status_code, answer.headers
        if code not in (200, 206, 416):
            raise Refused(f"the server answers {code} {answer.reason}")
        span = re.match(r"bytes (?:(\d+)-\d+|\*)/(\d*)", fields.get("Content-Range", "") if code != 200 else "")
        if span and span[2]:
            _same(int(span[2]), part)
        if code == 416 or (code == 206 and not (span and span[1] == str(start))):
            if not start:
                raise Refused(f"the server answers {code} {answer.reason} though no range was asked for")
            return get(part, url, session, resume=False)
        # As it comes, without decoding: a server may well call a .gz file another file's encoding.
        head = _read(answer.raw.read, 512)
        looks = code == 200 and re.match(rb"\s*<(!doctype html|html|head|body)\b", head, re.IGNORECASE)
        if looks or "html" in fields.get("Content-Type", "").lower():
            raise Refused("it gives an HTML page instead of the file (a moved file, or a network's login page)")
        if code == 200 and (length := fields.get("Content-Length", "")).isdigit():
            _same(int(length), part)
        if not head:  # before bytes that are kept are given up for it
            raise Broken("the answer is empty")
        etag = fields.get("ETag", "W/")
        version = fields.get("Last-Modified", "") if etag.startswith("W/") else etag  # If-Range takes no weak one

        def chunks() -> Iterator[bytes]:
            chunk = head
            while chunk:
                yield chunk
                chunk = _read(answer.raw.read1, CHUNK)

        part.write(url, start if code == 206 else 0, chunks(), version)


def _read(read: Callable[[int], bytes], most: int) -> bytes:
    try:
        return read(most)
    except HTTPError as error:
        raise Broken(f"the connection broke ({error.args[-1]})") from None


def _same(size: int, part: Part) -> None:
    if size != part.archive.bytes:
        raise Refused(f"its file has {size:,} bytes, not {part.archive.bytes:,}")


def _unreachable(error: requests.RequestException) -> Refused:
    chain: list[BaseException] = [error]
    while cause := chain[-1].__cause__ or chain[-1].__context__:
        chain.append(cause)
    offline = "is this machine offline? "
    if any(isinstance(cause, socket.gaierror) for cause in chain):
        return Refused(f"{offline}The server's name cannot be resolved")
    if any(isinstance(cause, OSError) and cause.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH) for cause in chain):
        return Refused(f"{offline}There is no route to the server")
    return Refused(f"no answer: {chain[-1]}")
