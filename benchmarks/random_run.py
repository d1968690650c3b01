"""What `benchmarks.scale` measures: training and evaluation on random images and labels."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mlml import corruption
from mlml.checkpoints.checkpoint import Checkpoint
from mlml.evaluation import evaluate
from mlml.images.store import ROWS, open_images
from mlml.labels import ABSENT, PRESENT
from mlml.labels.table import Table
from mlml.model import loader, predict
from mlml.model.classifier import Classifier
from mlml.settings import Setting
from mlml.training import experiment
from mlml.training.recipe import Recipe, Run

CHUNK = 1000  # rows that are written at once
PRESENTS = 8  # present labels an image, at most
KEPT = "kept"


class Work(NamedTuple):
    """One run, and the folder that holds its images, labels, checkpoint and scores.

    Attributes:
        images: of training; a tenth as many validate.
        options: the method's.
    """

    folder: Path
    images: int
    classes: int
    pixels: int
    backbone: str
    batch: int
    epochs: int
    method: str
    options: Mapping[str, Any]

    def names(self) -> tuple[str, ...]:
        """Of the classes."""
        return tuple(f"class {i}" for i in range(self.classes))


def make(work: Work) -> None:
    """Write images, full labels, and the observed ones of the training images."""
    random, n = np.random.default_rng(0), work.images + max(1, work.images // 10)
    rows = np.lib.format.open_memmap(work.folder / ROWS, "w+", np.uint8, (n, work.pixels, work.pixels, 3))
    for start in range(0, n, CHUNK):
        rows[start : start + CHUNK] = random.integers(0, 256, rows[start : start + CHUNK].shape, np.uint8)
    labels = np.full((n, work.classes), ABSENT, np.int8)
    labels[np.repeat(np.arange(n), PRESENTS), random.integers(0, work.classes, PRESENTS * n)] = PRESENT
    np.save(work.folder / "labels.npy", labels)
    np.save(work.folder / "observed.npy", corruption.corrupt(labels[: work.images], Setting.parse("pol_02"), 0))


def train(work: Work, checkpoint: Checkpoint | None = None) -> None:
    """What the stage train does, after its tables are read."""
    labels, observed = (np.load(work.folder / f"{name}.npy") for name in ("labels", "observed"))
    split = ("train",) * work.images + ("validation",) * (len(labels) - work.images)
    table = Table(work.names(), tuple(map(str, range(len(labels)))), split, labels)
    recipe = Recipe(backbone=work.backbone, weights="none", lr=1e-3, batch_size=work.batch, epochs=work.epochs)
    axes = Run(method=work.method, seed=0, device="cpu")
    experiment.train(open_images(work.folder), table, observed, recipe, axes, work.options, checkpoint=checkpoint)
    if checkpoint:
        checkpoint.wait()


def with_checkpoint(work: Work) -> None:
    """As `train`, with a checkpoint, which stays as `KEPT` when all epochs are done."""
    checkpoint = Checkpoint(work.folder, "run")
    train(work, checkpoint)
    checkpoint.path.rename(Checkpoint(work.folder, KEPT).path)


def resume(work: Work) -> None:
    """Go on after what `with_checkpoint` trained, and train one more epoch.

    Raises:
        ValueError: it did not end.
    """
    checkpoint = Checkpoint(work.folder, KEPT)
    if not checkpoint.path.exists():
        raise ValueError("there is no checkpoint of all epochs: the step before has failed")
    train(work._replace(epochs=work.epochs + 1), checkpoint)


def score(work: Work) -> None:
    """What the stage evaluate does, after its table is read; on the training images."""
    labels = np.load(work.folder / "labels.npy")[: work.images]
    test = loader.Examples(open_images(work.folder), np.arange(len(labels)), labels)
    logits = predict.predict(Classifier(work.backbone, work.classes), test)
    evaluate(work.names(), labels, logits)
    np.save(work.folder / "scores.npy", logits)
