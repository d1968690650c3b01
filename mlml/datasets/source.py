"""What a reader gives: the label table and a way to load each image."""

from collections.abc import Callable
from typing import NamedTuple

from PIL import Image

from mlml.table import Table


class Source(NamedTuple):
    """A data set as it was brought.

    Attributes:
        table: one row an image, with its split and its full or partial labels.
        load: row number -> the picture as stored, any mode and size. Called from several threads at once;
            raises ValueError or OSError with the image's name when there is no picture.
    """

    table: Table
    load: Callable[[int], Image.Image]
