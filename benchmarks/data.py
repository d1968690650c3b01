"""Images, labels and scores to measure with."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from mlml.datasets.prepare import prepare
from mlml.datasets.source import Source
from mlml.images.store import Images, Storage, open_images
from mlml.labels import ABSENT, PRESENT
from mlml.labels.table import Table

CLASSES = 20
SUFFIXES = {".jpg", ".jpeg", ".png"}


@contextmanager
def image_files(folder: Path | None, count: int) -> Iterator[tuple[list[Path], Path]]:
    """`count` files of `folder`, repeated as needed, or of made-up noise; and a temporary folder."""
    with tempfile.TemporaryDirectory() as temporary:
        found = folder or _noise(Path(temporary))
        files = sorted(path for path in found.iterdir() if path.suffix.lower() in SUFFIXES)
        if not files:
            raise SystemExit(f"{folder} holds no {' '.join(sorted(SUFFIXES))} files")
        yield [files[number % len(files)] for number in range(count)], Path(temporary)


def _noise(folder: Path) -> Path:
    """Write 64 JPEGs of 500 x 375 pixels: coarse noise, whose files are about as long as photographs."""
    random = np.random.default_rng(0)
    for number in range(64):
        coarse = Image.fromarray(random.integers(0, 256, (94, 125, 3), np.uint8))
        coarse.resize((500, 375), Image.Resampling.BICUBIC).save(folder / f"{number}.jpg", quality=90)
    return folder


def label_table(train: int, validation: int = 0) -> Table:
    """Random labels of training images, and validation images with all labels present."""
    labels = np.full((train + validation, CLASSES), PRESENT, np.int8)
    labels[:train][np.random.default_rng(0).random((train, CLASSES)) > 0.1] = ABSENT
    split = ("train",) * train + ("validation",) * validation
    return Table(tuple(map(str, range(CLASSES))), tuple(map(str, range(len(split)))), split, labels)


def prepared(paths: list[Path], size: int, folder: Path, storage: Storage) -> Images:
    """Prepare image files by the library."""
    source = Source(label_table(len(paths)), lambda row: paths[row].read_bytes())
    prepare(source, size, folder / storage, storage)
    return open_images(folder / storage)


def scores_of(images: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Truth, bool, and probabilities, float32, both [n, L]; 3.6 % are present, as in COCO."""
    random = np.random.default_rng(0)
    scores = np.empty((images, classes), np.float32)  # all in place: the peak of memory must be the metric's
    truth = random.random(out=scores, dtype=np.float32) < 0.036
    truth[random.integers(images)] = True
    random.standard_normal(out=scores, dtype=np.float32)
    np.add(scores, 2, out=scores, where=truth)
    torch.from_numpy(scores).sub_(2).mul_(2).sigmoid_()
    return truth, scores


def score_once(function: Callable[[np.ndarray, np.ndarray], object], images: int, classes: int, rows: int) -> None:
    """Make scores of this many images, and call `function` on the first `rows` of them."""
    function(*scores_of(50, 2))  # loads what the first call loads
    truth, scores = scores_of(images, classes)
    function(truth[:rows], scores[:rows])
