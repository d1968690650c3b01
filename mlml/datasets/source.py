"""The result of a reader: the label table and the image files."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from mlml.labels.table import Table


class Source(NamedTuple):
    """A data set before preparation.

    Attributes:
        table: one row per image, with its split and its full or partial labels.
        read: row number -> the content of its image file. Called from several threads; raises ValueError or OSError
            if the file cannot be read.
        upright: whether to apply the EXIF orientation (see `mlml.images.decoding.decode`).
        places: where each image is listed, for messages ("labels.csv, row 7: images/a.jpg"); None: `table.images`.
        notes: lines for the user on what is allowed but seldom intended, such as files that are not read.
        published: whether these are the files of a public data set, which are taken as they were published; others are
            refused if they are damaged.
        file: the user's table of labels, for messages.
    """

    table: Table
    read: Callable[[int], bytes]
    upright: bool = False
    places: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    published: bool = False
    file: Path | None = None
