"""Reads only files that end: not pipes and devices, which wait or never stop, nor what would fill the memory."""

import os
import stat
from pathlib import Path

from mlml.core.errors import raise_errors

LARGEST = 1 << 30  # bytes read at once: three times COCO's annotations, more than any picture that is decoded
_IGNORED = {".git", ".hg", ".dvc"}  # by DVC
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def is_utf8(name: str) -> bool:
    """Whether a name from the disk is text in UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:  # Python reads such a byte as half a surrogate pair
        return False
    return True


def kind(path: str | Path) -> str | None:
    """What is at `path`, links followed, if it is no file: "a folder", "a named pipe", ...; None: a file or nothing."""
    try:
        return _KINDS.get(stat.S_IFMT(os.stat(path).st_mode))
    except (OSError, ValueError):  # nothing there, a name that is too long or has a NUL
        return None


def check_file(path: Path, needed: str) -> None:
    """Check that there is a file at `path`.

    Args:
        needed: what it must be, for the message.

    Raises:
        ValueError: there is nothing, or something else.
    """
    if not os.path.isfile(path):
        raise ValueError(f"{path} is {kind(path) or 'missing'}; it must be {needed}")


def read_file(path: Path, largest: int = LARGEST) -> bytes:
    """The content of the file at `path`.

    Raises:
        ValueError: it is no file, or has more than `largest` bytes.
        OSError: it cannot be read.
    """
    if what := kind(path):
        raise ValueError(f"it is {what}, not a file")
    check_size("it", os.stat(path).st_size, largest)
    return path.read_bytes()


def check_size(what: str, size: int, largest: int = LARGEST) -> None:
    """Check the size of a file or of an archive's member, in bytes.

    Raises:
        ValueError: it is more than `largest`.
    """
    if size > largest:
        raise ValueError(f"{what} has {size:,} bytes; at most {largest:,} are read")


def check_folder(folder: Path) -> None:
    """Check that all that lies below `folder` can be listed and read, as DVC does before a stage starts.

    Raises:
        ValueError: names that are not UTF-8, pipes, sockets or devices; a line for each.
    """
    faults = []
    paths = []
    for path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _IGNORED]
        paths += [os.path.join(path, name) for name in names]
    for path in sorted(paths):
        if not is_utf8(path):
            faults.append(f"{os.fsencode(path)!r}: the name is not UTF-8; rename the file")
        elif what := kind(path):
            faults.append(f"{path} is {what}; remove it")
    raise_errors(f"{folder}: files that cannot be used: {len(faults)}", faults)
