"""Moving the bytes of one archive from one address into its partial file."""

import errno
import os
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import requests
from urllib3.exceptions import HTTPError

from mlml.download.archive import CHUNK, Broken, Part, Refused

CONNECT, READ = 15.0, 60.0  # seconds; READ is the longest silence, not the whole transfer


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
