"""Fetches the archives of a public data set: resumes, tries one address after the other, trusts only the sha256."""

import errno
import logging
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import requests
from pydantic import PlainValidator
from requests.adapters import HTTPAdapter
from urllib3.response import BaseHTTPResponse
from urllib3.util import Retry

from mlml.core.files import atomic_write
from mlml.core.params import Section
from mlml.download.archive import Archive, Broken, Part, Refused
from mlml.download.manual import Brought
from mlml.download.transfer import copy, get

logger = logging.getLogger(__name__)

__all__ = ["Archive", "Download", "DownloadError", "fetch"]

RETRIES = 3  # of a request that fails, and of a transfer that breaks without getting further
BACKOFF = 1.0  # seconds, doubled with each retry
LONGEST = 60.0  # seconds; as far as a server's Retry-After is obeyed


def _entry(value: Any) -> Archive | Brought:
    by_hand = isinstance(value, Brought) or (isinstance(value, Mapping) and "bring" in value)
    return Brought.model_validate(value) if by_hand else Archive.model_validate(value)


class Download(Section):
    """What the stage `download` reads of a data set's file: what to fetch and what a user must bring, if anything."""

    archives: list[Annotated[Archive | Brought, PlainValidator(_entry)]]

    @property
    def to_fetch(self) -> list[Archive]:
        return [entry for entry in self.archives if isinstance(entry, Archive)]

    @property
    def by_hand(self) -> list[Brought]:
        return [entry for entry in self.archives if isinstance(entry, Brought)]


class DownloadError(OSError):
    """The file could not be fetched; says why at each address, what is kept and where, and what to do."""


def fetch(archive: Archive, folder: Path, partial: Path) -> Path:
    """Make ``folder/<archive.file>`` complete and verified; returns its path.

    Args:
        partial: where the bytes gather, under a name made of the sha256. A later run resumes from there after
            any kind of end, so it must survive. Not for two runs at once.

    Raises:
        DownloadError: no address gave the file, or the disk is full.
    """
    target, part = folder / archive.file, Part(archive, partial)
    if target.is_file() and part.verified(target):
        part.clear()
        return target
    try:
        for path in (folder, partial):
            path.mkdir(parents=True, exist_ok=True)
        if part.size < archive.bytes or not part.verified(part.path):
            if part.size >= archive.bytes:  # complete and wrong, or too long: no address could mend it
                part.clear()
            _from_any(part)
        _move(part.path, target)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        missing = archive.bytes - part.size
        # With all bytes here it was the copy to another file system that found no room.
        need = f"{missing:,} more bytes in {partial}" if missing else f"{archive.bytes:,} bytes in {folder}"
        raise DownloadError(
            f"{archive.file}: the disk is full, it needs {need}\n  {part.kept}; make room and run the command again"
        ) from None
    part.clear()
    return target


class _Retry(Retry):
    def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
        wait = super().get_retry_after(response)
        return None if wait is None else min(wait, LONGEST)


def _from_any(part: Part) -> None:
    archive, lines = part.archive, [f"{part.archive.file}: no address gave it"]
    with requests.Session() as session:
        codes = (429, 500, 502, 503, 504)
        retry = _Retry(RETRIES, backoff_factor=BACKOFF, status_forcelist=codes, raise_on_status=False)
        for scheme in ("http://", "https://"):
            session.mount(scheme, HTTPAdapter(max_retries=retry))
        for url in archive.urls:
            try:
                return _from_one(part, url, session)
            except Refused as refusal:
                lines.append(f"{url}: {refusal}")
                logger.warning(f"{archive.file}: {lines[-1]}")
    again = f"run the command again to {'resume' if part.size else 'try again'}"
    lines.append(f"{part.kept}; {again}, or add a file: address of a copy you have to the data set's dataset.yaml")
    raise DownloadError("\n  ".join(lines))


def _from_one(part: Part, url: str, session: requests.Session) -> None:
    archive, best, stalls = part.archive, part.size, 0
    while True:
        try:
            if url.startswith("file:"):
                copy(part, url)
            else:
                get(part, url, session)
        except Broken as broken:
            stalls = 1 if part.size > best else stalls + 1
            best = max(best, part.size)  # the furthest: a server that always starts over must not go on for ever
            why = f"{broken} at byte {part.size:,} of {archive.bytes:,}"
            if stalls > RETRIES:
                raise Refused(f"{why}, and {RETRIES} retries got no further") from None
            logger.warning(f"{archive.file}: {why}; trying again")
            time.sleep(BACKOFF * 2 ** (stalls - 1))
            continue
        found = part.sha256(part.path)
        if found == archive.sha256:
            return
        alone = part.sources == {url}
        part.clear()
        if alone:
            raise Refused(f"it gives a file with sha256 {found}, not {archive.sha256}")
        logger.warning(f"{archive.file}: bytes of several runs or addresses do not fit together; starting over")
        best = 0


def _move(source: Path, target: Path) -> None:
    try:
        os.replace(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        with atomic_write(target) as part:
            shutil.copyfile(source, part)
