"""Random access to the files in an archive, from any number of threads; nothing is unpacked to disk.

A member's name is only a key, never a path to write to.
"""

import io
import os
import struct
import tarfile
import weakref
import zipfile
import zlib
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Generic, TypeVar

from mlml.datasets.files.regular_files import check_size, kind

_P = TypeVar("_P")
_LOCAL_HEADER = struct.Struct("<4s22xHH")  # of a zip's member: signature, lengths of name and extra field
_ENCRYPTED = 0x41  # flag bits: a password, strong encryption
_GROWTH = 1032  # the highest compression ratio of deflate
_PIECE = 1 << 16  # compressed bytes, unpacked to four times as many at once


class _Members(ABC, Generic[_P]):
    """The members of one archive by name.

    Attributes:
        path: the archive's file.
    """

    _kind: str

    def __init__(self, path: Path) -> None:
        """Read the list of members, not their content.

        Raises:
            ValueError: no such file, or no such archive.
        """
        self.path = path
        if what := kind(path):
            raise ValueError(f"{path} is no {self._kind} archive: it is {what}")
        try:
            self._places = self._index()
            self._file = os.open(path, os.O_RDONLY)
            weakref.finalize(self, os.close, self._file)
        except FileNotFoundError:
            raise ValueError(f"{path} is missing; `dvc repro download` fetches it") from None
        # What the standard library raises on a damaged list of members.
        except (tarfile.TarError, zipfile.BadZipFile, NotImplementedError, ValueError, OSError, struct.error) as error:
            raise ValueError(f"{path} is no {self._kind} archive, or is cut short: {error}") from None

    @abstractmethod
    def _index(self) -> dict[str, _P]:
        """The place of each member; of several with one name, the last."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """The content of a member.

        Raises:
            ValueError: no such member, or it cannot be read, or has more than `regular_files.LARGEST` bytes.
        """

    def text(self, name: str) -> str:
        """The content of a member as UTF-8 text.

        Raises:
            ValueError: as `read`, or the member is not UTF-8.
        """
        try:
            return self.read(name).decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.path}: {name} is no text in UTF-8: {error}") from None

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def _place(self, name: str) -> _P:
        if name not in self._places:
            raise ValueError(f"{self.path}: {name} is missing")
        return self._places[name]

    def _bytes(self, name: str, offset: int, size: int) -> bytes:
        # Bounded by the file's length: a damaged archive may declare any place and size.
        rest = os.fstat(self._file).st_size - offset
        size_there = min(size, rest) if offset >= 0 and rest > 0 else 0
        check_size(f"{self.path}: {name}", size_there)
        data = os.pread(self._file, size_there, offset) if size_there else b""
        if len(data) != size:
            raise ValueError(f"{self.path}: {name} is cut short ({len(data)} of {size} bytes)")
        return data


class TarMembers(_Members[tuple[int, int]]):
    """The files in an uncompressed tar."""

    _kind = "tar"

    def _index(self) -> dict[str, tuple[int, int]]:
        with tarfile.open(self.path, "r:") as tar:
            files = (member for member in tar if member.isreg() and not member.issparse())
            return {member.name: (member.offset_data, member.size) for member in files}

    def read(self, name: str) -> bytes:
        return self._bytes(name, *self._place(name))


class ZipMembers(_Members[zipfile.ZipInfo]):
    """The files in a zip of any size (zip64), stored or deflated.

    zipfile lists the members. It is not used to read them: it serves one thread at a time, and takes twice a member's
    size in memory.
    """

    _kind = "zip"

    def _index(self) -> dict[str, zipfile.ZipInfo]:
        with zipfile.ZipFile(self.path) as archive:
            return {info.filename: info for info in archive.infolist() if not info.filename.endswith("/")}

    def read(self, name: str) -> bytes:
        place = self._place(name)
        if place.flag_bits & _ENCRYPTED:
            raise ValueError(f"{self.path}: {name} is encrypted; bring an archive that needs no password")
        if place.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(
                f"{self.path}: {name} is compressed by method {place.compress_type}, not stored or deflated"
            )
        check_size(f"{self.path}: {name}", place.file_size)
        data, reason = self._compressed(name, place), "its checksum differs"
        if place.compress_type == zipfile.ZIP_DEFLATED:
            try:
                data = _inflate(data, place.file_size)
            except zlib.error as error:
                data, reason = b"", str(error)
        if len(data) != place.file_size or zlib.crc32(data) != place.CRC:
            raise ValueError(f"{self.path}: {name} is damaged ({reason}); bring the archive again")
        return data

    def _compressed(self, name: str, place: zipfile.ZipInfo) -> bytes:
        header = _LOCAL_HEADER.size
        signature, *lengths = _LOCAL_HEADER.unpack(self._bytes(name, place.header_offset, header))
        if signature != b"PK\3\4":
            raise ValueError(f"{self.path}: {name} is not where the archive says; bring the archive again")
        return self._bytes(name, place.header_offset + header + sum(lengths), place.compress_size)


def _inflate(data: bytes, size: int) -> bytes:
    """Unpack deflated data, which should be `size` bytes long; stops when there are more.

    zlib.decompress does not stop. The buffer has the full size from the start, which saves a copy.
    """
    inflate, out = zlib.decompressobj(-zlib.MAX_WBITS), io.BytesIO()
    out.seek(max(0, min(size, _GROWTH * len(data)) - 1))
    out.write(b"\0")
    out.seek(0)
    for start in range(0, len(data), _PIECE):
        piece = data[start : start + _PIECE]
        while piece and out.tell() <= size:
            out.write(inflate.decompress(piece, min(size + 1 - out.tell(), 4 * _PIECE)))
            piece = inflate.unconsumed_tail
    if out.tell() <= size:
        out.write(inflate.flush())  # the rest of a last repetition, when all is consumed but did not fit
    out.truncate()
    return out.getvalue()
