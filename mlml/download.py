"""Fetches one file of a public data set: resumes, tries one address after the other, trusts only the sha256."""

import errno
import hashlib
import os
import re
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import requests
from pydantic import AfterValidator
from requests.adapters import HTTPAdapter
from tqdm import tqdm
from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse
from urllib3.util import Retry

from mlml.params import Field, Section

CONNECT, READ = 15.0, 60.0  # seconds; READ is the longest silence, not the whole transfer
RETRIES = 3  # of a request that fails, and of a transfer that breaks without getting further
BACKOFF = 1.0  # seconds, doubled with each retry
LONGEST = 60.0  # seconds; as far as a server's Retry-After is obeyed
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
    relative to the working directory; an absolute one may also be written ``file://PATH``.
    """

    file: _Name
    urls: list[_Url] = Field(min_length=1)
    size: int = Field(gt=0)
    sha256: _Sha256


class DownloadError(RuntimeError):
    """The file could not be fetched; says why at each address, what is kept and where, and what to do."""


class _Refused(Exception):
    """This address does not give the file."""


class _Broken(Exception):
    """The transfer ended early; what came is kept."""


def fetch(archive: Archive, folder: Path, partial: Path) -> Path:
    """Make ``folder/<archive.file>`` complete and verified; returns its path.

    Args:
        partial: where the bytes gather, under a name made of the sha256. A later run resumes from there after
            any kind of end, so it must survive. Not for two runs at once.

    Raises:
        DownloadError: no address gave the file, or the disk is full.
    """
    target, part = folder / archive.file, _Part(archive, partial)
    if target.is_file() and part.verified(target):
        part.clear()
        return target
    try:
        for path in (folder, partial):
            path.mkdir(parents=True, exist_ok=True)
        if part.size < archive.size or not part.verified(part.path):
            if part.size >= archive.size:  # complete and wrong, or too long: no address could mend it
                part.clear()
            _from_any(part)
        _move(part.path, target)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        missing = archive.size - part.size
        # With all bytes here it was the copy to another file system that found no room.
        need = f"{missing:,} more bytes in {partial}" if missing else f"{archive.size:,} bytes in {folder}"
        raise DownloadError(
            f"{archive.file}: the disk is full, it needs {need}\n  {part.kept}; make room and run the command again"
        ) from None
    part.clear()
    return target


class _Part:
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
            f"{self.size:,} of {self.archive.size:,} bytes are kept in {self.path}" if self.size else "nothing is kept"
        )

    def version(self, url: str) -> str:
        """The ETag or Last-Modified of the answer of `url` that these bytes began with, or nothing."""
        lines = self._origin.read_text("utf-8").split("\n") if self._origin.exists() else []
        return lines[1] if lines[0:1] == [url] and len(lines) == 3 else ""

    def write(self, url: str, start: int, chunks: Iterable[bytes], version: str = "") -> None:
        """Put `chunks` from byte `start` on, which is 0 or the size; returns when the size is the archive's."""
        total = self.archive.size
        _say(f"{self.archive.file}: from {url}" + (f", resuming at byte {start:,}" if start else ""))
        with self.path.open("ab" if start else "wb") as file, _progress(self.archive.file, start, total) as add:
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
        raise _Broken("the answer ended")

    def sha256(self, path: Path) -> str:
        digest = hashlib.sha256()
        total = self.archive.size
        with path.open("rb") as file, _progress(f"checking {self.archive.file}", 0, total, total >= BIG) as add:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                add(len(chunk))
        return digest.hexdigest()

    def verified(self, path: Path) -> bool:
        return path.stat().st_size == self.archive.size and self.sha256(path) == self.archive.sha256

    def clear(self) -> None:
        for path in (self.path, self._origin):
            path.unlink(missing_ok=True)
        self.sources.clear()


class _Retry(Retry):
    def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
        wait = super().get_retry_after(response)
        return None if wait is None else min(wait, LONGEST)


def _from_any(part: _Part) -> None:
    archive, lines = part.archive, [f"{part.archive.file}: no address gave it"]
    with requests.Session() as session:
        codes = (429, 500, 502, 503, 504)
        retry = _Retry(RETRIES, backoff_factor=BACKOFF, status_forcelist=codes, raise_on_status=False)
        for scheme in ("http://", "https://"):
            session.mount(scheme, HTTPAdapter(max_retries=retry))
        for url in archive.urls:
            try:
                return _from_one(part, url, session)
            except _Refused as refusal:
                lines.append(f"{url}: {refusal}")
                _say(f"{archive.file}: {lines[-1]}")
    again = f"run the command again to {'resume' if part.size else 'try again'}"
    lines.append(f"{part.kept}; {again}, or add a file: address of a copy you have to the data set's dataset.yaml")
    raise DownloadError("\n  ".join(lines))


def _from_one(part: _Part, url: str, session: requests.Session) -> None:
    archive, best, stalls = part.archive, part.size, 0
    while True:
        try:
            if url.startswith("file:"):
                _copy(part, url)
            else:
                _get(part, url, session)
        except _Broken as broken:
            stalls = 1 if part.size > best else stalls + 1
            best = max(best, part.size)  # the furthest: a server that always starts over must not go on for ever
            why = f"{broken} at byte {part.size:,} of {archive.size:,}"
            if stalls > RETRIES:
                raise _Refused(f"{why}, and {RETRIES} retries got no further") from None
            _say(f"{archive.file}: {why}; trying again")
            time.sleep(BACKOFF * 2 ** (stalls - 1))
            continue
        found = part.sha256(part.path)
        if found == archive.sha256:
            return
        alone = part.sources == {url}
        part.clear()
        if alone:
            raise _Refused(f"it gives a file with sha256 {found}, not {archive.sha256}")
        _say(f"{archive.file}: bytes of several runs or addresses do not fit together; starting over")
        best = 0


def _copy(part: _Part, url: str) -> None:
    path = Path(re.sub("^file:(//(?=/))?", "", url))
    try:
        file = path.open("rb")
    except OSError as error:
        raise _Refused(f"{path.absolute()} cannot be read: {error.strerror}") from None
    with file:
        _same(os.fstat(file.fileno()).st_size, part)
        file.seek(part.size)
        part.write(url, part.size, iter(lambda: file.read(CHUNK), b""))


def _get(part: _Part, url: str, session: requests.Session, resume: bool = True) -> None:
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
            raise _Refused(f"the server answers {code} {answer.reason}")
        span = re.match(r"bytes (?:(\d+)-\d+|\*)/(\d*)", fields.get("Content-Range", "") if code != 200 else "")
        if span and span[2]:
            _same(int(span[2]), part)
        if code == 416 or (code == 206 and not (span and span[1] == str(start))):
            if not start:
                raise _Refused(f"the server answers {code} {answer.reason} though no range was asked for")
            return _get(part, url, session, resume=False)
        # As it comes, without decoding: a server may well call a .gz file another file's encoding.
        head = _read(answer.raw.read, 512)
        looks = code == 200 and re.match(rb"\s*<(!doctype html|html|head|body)\b", head, re.IGNORECASE)
        if looks or "html" in fields.get("Content-Type", "").lower():
            raise _Refused("it gives an HTML page instead of the file (a moved file, or a network's login page)")
        if code == 200 and (length := fields.get("Content-Length", "")).isdigit():
            _same(int(length), part)
        if not head:  # before bytes that are kept are given up for it
            raise _Broken("the answer is empty")
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
        raise _Broken(f"the connection broke ({error.args[-1]})") from None


def _same(size: int, part: _Part) -> None:
    if size != part.archive.size:
        raise _Refused(f"its file has {size:,} bytes, not {part.archive.size:,}")


def _unreachable(error: requests.RequestException) -> _Refused:
    chain: list[BaseException] = [error]
    while cause := chain[-1].__cause__ or chain[-1].__context__:
        chain.append(cause)
    offline = "is this machine offline? "
    if any(isinstance(cause, socket.gaierror) for cause in chain):
        return _Refused(f"{offline}The server's name cannot be resolved")
    if any(isinstance(cause, OSError) and cause.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH) for cause in chain):
        return _Refused(f"{offline}There is no route to the server")
    return _Refused(f"no answer: {chain[-1]}")


def _move(source: Path, target: Path) -> None:
    try:
        os.replace(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        copy = target.with_name(target.name + ".part")
        shutil.copyfile(source, copy)
        os.replace(copy, target)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@contextmanager
def _progress(what: str, done: int, total: int, shown: bool = True) -> Iterator[Callable[[int], None]]:
    """Yields a function to report bytes to: a bar on a terminal, otherwise a line every 10%."""
    lines = shown and not sys.stderr.isatty()
    with tqdm(desc=what, initial=done, total=total, unit="B", unit_scale=True, disable=lines or not shown) as bar:

        def add(count: int) -> None:
            nonlocal done
            before, done = done, done + count
            bar.update(count)
            if lines and done * 10 // total > before * 10 // total:
                _say(f"{what}: {done * 100 // total}% of {total:,} bytes")

        yield add
