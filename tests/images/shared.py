"""Shared by the tests of prepared images."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from mlml.datasets.source import Source
from mlml.images.store import open_images
from mlml.labels.table import Table


def source(names: Sequence[object], read: Callable[[int], bytes], upright: bool = False) -> Source:
    """A data set with an image of each name, of one class."""
    n = len(names)
    return Source(Table(("cat",), tuple(map(str, names)), ("train",) * n, np.ones((n, 1), np.int8)), read, upright)


def pixels(folder: Path) -> np.ndarray:
    """All prepared images, uint8 [n, S, S, 3]."""
    images = open_images(folder)
    return np.concatenate(list(images.stream(np.array_split(np.arange(len(images)), 3))))


def by_pillow(image: Image.Image, size: int) -> np.ndarray:
    return np.asarray(image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR))
