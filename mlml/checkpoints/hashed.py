"""Files that end with the SHA-256 of what stands before, so that a damaged one is known."""

import errno
import hashlib
import io
import os
from threading import Event
from typing import IO, Any

BLOCK = 1 << 20  # bytes that are hashed at once
DIGEST = 32  # bytes of the hash


def whole(file: IO[bytes]) -> bool:
    """Whether the file ends with the hash of what stands before."""
    left, hashed = os.fstat(file.fileno()).st_size - DIGEST, hashlib.sha256()
    while left > 0:
        block = file.read(min(left, BLOCK))
        hashed.update(block)
        left -= len(block)
    return file.read() == hashed.digest()


class Hashing(io.RawIOBase):
    """Hashes what is written to a file on its way; `fault` is why it could not be written.

    Args:
        given_up: once it is set, nothing is written any more: an OSError.
    """

    fault: OSError | None = None

    def __init__(self, file: IO[bytes], given_up: Event) -> None:
        self._file, self._hash, self._given_up = file, hashlib.sha256(), given_up

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        try:
            for start in range(0, len(view), BLOCK):
                if self._given_up.is_set():
                    raise OSError(errno.ECANCELED, os.strerror(errno.ECANCELED))
                self._hash.update(view[start : start + BLOCK])
                self._file.write(view[start : start + BLOCK])
            return len(view)
        except OSError as error:
            self.fault = error
            raise

    def digest(self) -> bytes:
        return self._hash.digest()
