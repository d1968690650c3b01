"""Writing files so that a half-written one never has the name of a complete one."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path` to write to; it takes the name when the block ends without an error.

    A new file takes the old one's place instead of being written over it: the old one may be a link into
    DVC's cache.
    """
    part = path.with_name("." + path.name)
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def sync(*paths: Path) -> None:
    """Have these files, and the names in these folders, on the disk: until then a power failure may undo them."""
    for path in paths:
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def link(source: Path, target: Path) -> None:
    """Make `target` another name of the file `source`, or a copy of it where the file system has no such names."""
    with atomic_write(target) as part:
        try:
            os.link(source, part)
        except OSError:
            shutil.copyfile(source, part)


def write_json(path: Path, values: Mapping[str, int | float | str]) -> None:
    """Write `values` as a JSON object, one key a line."""
    with atomic_write(path) as part:
        part.write_text(json.dumps(values, indent=2, allow_nan=False) + "\n", encoding="utf-8")
