"""What a reader gives: the label table and the image files."""

from collections.abc import Callable
from typing import NamedTuple

from mlml.labels.table import Table


class Source(NamedTuple):
    """A data set as it was brought.

    Attributes:
        table: one row an image, with its split and its full or partial labels.
        read: row number -> the content of its image file. Called from several threads at once; raises ValueError or
            OSError when there is none.
        upright: whether pictures are turned as their EXIF orientation says (see `mlml.images.decoding.decode`).
        places: where each image is spoken of, for messages ("labels.csv, row 7: images/a.jpg"); None: the table's
            own names of the images say enough.
    """

    table: Table
    read: Callable[[int], bytes]
    upright: bool = False
    places: tuple[str, ...] | None = None
