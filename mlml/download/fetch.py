"""Downloads an archive: resumes, tries one URL after the other, and trusts only the SHA-256."""

import hashlib
import logging
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError, ProtocolError
from urllib3.util import Retry

from mlml.core.errors import message
from mlml.core.files import NO_ROOM
from mlml.core.progress import progress
from mlml.download.archives import Archive

logger = logging.getLogger(__name__)

RETRIES = 3  # of a request that fails, and of a transfer that breaks without getting further
BACKOFF = 1.0  # seconds; doubles with each retry
MAX_RETRY_AFTER = 60.0  # seconds; a server's Retry-After is obeyed up to this
BUSY = (429, 500, 502, 503, 504)  # HTTP status codes after which the request is repeated
TIMEOUT = (15.0, 60.0)  # seconds: to connect, and of silence
CHUNK = 1 << 18  # bytes


class DownloadError(OSError):
    """The archive could not be downloaded. Says why for each URL, what is kept and where, and what to do."""


class _UrlError(Exception):
    """This URL does not give the file."""


def fetch(archive: Archive, folder: Path) -> Path:
    """Download `archive` unless ``folder/<archive.file>`` is already complete; returns that path.

    The bytes gather in ``<archive.file>.part`` beside it, and a later run resumes from there however this one ends.
    Two runs must not fetch the same archive at once.

    Raises:
        DownloadError: no URL gave the file, or the disk is full.
    """
    target, part = folder / archive.file, folder / f"{archive.file}.part"
    if _verified(target, archive):
        part.unlink(missing_ok=True)
        return target
    folder.mkdir(parents=True, exist_ok=True)
    failures = []
    try:
        if not _verified(part, archive):
            failures = _try_urls(archive, part)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        failures = [f"{message(error)}: {folder} needs {archive.bytes - _size(part):,} more bytes"]
    if failures:
        size = _size(part)
        kept = f"{size:,} of {archive.bytes:,} bytes are kept in {part}" if size else "nothing is kept"
        again = f"run the command again to {'resume' if size else 'retry'}"
        remedy = f"{kept}; {again}, or add the file: URL of a copy you have to the data set's dataset.yaml"
        raise DownloadError("\n  ".join([f"{archive.file}: cannot be downloaded", *failures, remedy]))
    os.replace(part, target)
    return target


class _CappedRetry(Retry):
    def parse_retry_after(self, retry_after: str) -> float:
        return min(super().parse_retry_after(retry_after), MAX_RETRY_AFTER)


def _try_urls(archive: Archive, part: Path) -> list[str]:
    """Complete `part` from the first URL that can; returns the failures of all of them if none can."""
    if _size(part) >= archive.bytes:  # complete and wrong
        part.unlink()
    failures = []
    retry = _CappedRetry(RETRIES, backoff_factor=BACKOFF, status_forcelist=BUSY, raise_on_status=False)
    with requests.Session() as session:
        session.mount("http://", HTTPAdapter(max_retries=retry))
        session.mount("https://", HTTPAdapter(max_retries=retry))
        for url in archive.urls:
            try:
                _try_url(url, archive, part, session)
                return []
            except _UrlError as error:
                failures.append(f"{url}: {error}")
                logger.warning(f"{archive.file}: {failures[-1]}")
    return failures


def _try_url(url: str, archive: Archive, part: Path, session: requests.Session) -> None:
    transfer = _copy if url.startswith("file:") else _download
    furthest, failures, started_over = _size(part), 0, False
    while True:
        try:
            start = transfer(url, archive, part, session)
        except HTTPError as error:  # the transfer ended early; what arrived is kept
            size = _size(part)
            # Counted from the furthest point: a server that always starts over must not go on for ever.
            failures = 1 if size > furthest else failures + 1
            furthest = max(furthest, size)
            reason = f"the connection broke ({error.args[-1]}) at byte {size:,} of {archive.bytes:,}"
            if failures > RETRIES:
                raise _UrlError(f"{reason}, and {RETRIES} retries got no further") from None
            logger.warning(f"{archive.file}: {reason}; trying again")
            time.sleep(BACKOFF * 2 ** (failures - 1))
            continue
        sha256 = _sha256(part, archive)
        if sha256 == archive.sha256:
            return
        part.unlink()
        if start == 0 or started_over:
            raise _UrlError(f"its file has sha256 {sha256}, not {archive.sha256}")
        logger.warning(f"{archive.file}: the bytes of several transfers do not fit together; starting over")
        furthest, started_over = 0, True


def _download(url: str, archive: Archive, part: Path, session: requests.Session) -> int:
    """Append the rest of the file to `part`, or replace it if the server sends the whole; returns the first byte."""
    start = _size(part)
    # Without decoding: a server may declare a .gz file as the encoding of another one.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        response = session.get(url, headers=headers, stream=True, timeout=TIMEOUT)
    except (requests.RequestException, ValueError) as error:  # ValueError: sent on to what is no address
        raise _UrlError(f"no answer: {_root_cause(error)}") from None
    with response:
        if response.status_code not in (200, 206):
            raise _UrlError(f"the server answers {response.status_code} {response.reason}")
        if "html" in response.headers.get("Content-Type", "").lower():  # before kept bytes are replaced
            raise _UrlError("it gives an HTML page (a moved file, or a network's login page)")
        start, header = (start, "Content-Range") if response.status_code == 206 else (0, "Content-Length")
        size = response.headers.get(header, "").rpartition("/")[2]
        stated = int(size) if re.fullmatch("[0-9]{1,18}", size) else None
        _write(archive, part, url, start, stated, response.raw.read1)
    return start


def _copy(url: str, archive: Archive, part: Path, session: requests.Session) -> int:
    """As `_download`, from a local copy, which is never resumed."""
    path = Path(url.removeprefix("file:"))  # pathlib reads ///a as /a
    try:
        if path.is_fifo():
            raise _UrlError(f"{path.absolute()} is a pipe, no file")
        file = path.open("rb")
    except OSError as error:
        raise _UrlError(f"{path.absolute()} cannot be read: {error.strerror}") from None
    with file:
        _write(archive, part, url, 0, path.stat().st_size, file.read)
    return 0


def _write(archive: Archive, part: Path, url: str, start: int, size: int | None, read: Callable[[int], bytes]) -> None:
    """Write what `read` gives to `part` from byte `start` on, up to the archive's size: more may come, without end."""
    if size not in (None, archive.bytes):
        raise _UrlError(f"its file has {size:,} bytes, not {archive.bytes:,}")
    logger.info(f"{archive.file}: from {url}" + (f", resuming at byte {start:,}" if start else ""))
    with part.open("ab" if start else "wb") as file, progress(archive.file, archive.bytes, "B", start) as advance:
        while start < archive.bytes and (chunk := read(min(CHUNK, archive.bytes - start))):
            advance(file.write(chunk))
            file.flush()
            start += len(chunk)
    if start < archive.bytes:
        raise ProtocolError("the answer ended")


def _verified(path: Path, archive: Archive) -> bool:
    return path.is_file() and _size(path) == archive.bytes and _sha256(path, archive) == archive.sha256


def _sha256(path: Path, archive: Archive) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file, progress(f"checking {archive.file}", archive.bytes, "B") as advance:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            advance(len(chunk))
    return digest.hexdigest()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _root_cause(error: BaseException) -> BaseException:
    while cause := error.__cause__ or error.__context__:
        error = cause
    return error
