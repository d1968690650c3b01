"""Writes files so that a name never stands for half a file."""

import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; it is renamed to `path` if the block ends without an error.

    An old file is replaced, not written into: it may be a link to DVC's cache.

    Raises:
        OSError: it cannot be written; names `path`.
    """
    part = path.with_name("." + path.name)
    try:
        yield part
        os.replace(part, path)
    except OSError as error:
        # A write that fails names no file; a copy and a renaming name two.
        unnamed = error.filename is None or error.filename2 is not None
        if error.errno and (unnamed or str(error.filename) == str(part)):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        with suppress(OSError):  # a read-only file system refuses even if there is nothing
            part.unlink()


def sync(*paths: Path) -> None:
    """Flush files, or the names in folders, to the disk; before that, a power failure may undo them."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error
        finally:
            os.close(descriptor)


def link(source: Path, target: Path) -> None:
    """Make `target` a hard link to the file `source`, or a copy where the file system cannot link."""
    with atomic_write(target) as part:
        try:
            os.link(source, part)
        except OSError:
            shutil.copyfile(source, part)


def write_json(path: Path, values: Mapping[str, int | float | str]) -> None:
    """Write `values` as a JSON object, one key a line."""
    with atomic_write(path) as part:
        part.write_text(json.dumps(values, indent=2, allow_nan=False) + "\n", encoding="utf-8")
