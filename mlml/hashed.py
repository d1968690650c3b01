"""Files that end with the SHA-256 of what stands before, so that a damaged one is known."""

import hashlib
import io
import os
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
    """Hashes what is written to a file on its way; `fault` is why it could not be written."""

    fault: OSError | None = None

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._hash = file, hashlib.sha256()

    def write(self, data: Any) -> int:
        self._hash.update(data)
        try:
            return self._file.write(data)
        except OSError as error:
            self.fault = error
            raise

    def digest(self) -> bytes:
        return self._hash.digest()
