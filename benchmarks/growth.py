"""Time and memory of each step on random images and labels, at any size."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import timm.data  # noqa: F401  # loaded here, it does not count as the steps' memory
import torch

from benchmarks.turns import Usage, in_own_process
from mlml import corruption, datasets
from mlml.checkpoints.checkpoint import Checkpoint
from mlml.core.files import write_json
from mlml.evaluation import evaluate
from mlml.images.store import ABOUT, ROWS, open_images
from mlml.labels import ABSENT, PRESENT, statistics, table
from mlml.model.classifier import Classifier
from mlml.model.loader import examples
from mlml.model.predict import predict
from mlml.settings import Setting
from mlml.training import experiment
from mlml.training.recipe import Recipe, Run

BACKBONE, PIXELS, BATCH, EPOCHS = "test_resnet", 8, 250, 3  # so small that the labels decide
PRESENTS = 8  # present labels per image, at most


class Case(NamedTuple):
    """A folder with a data set.

    Attributes:
        images: training images; a tenth as many validate, and as many test.
        options: the method's.
    """

    folder: Path
    images: int
    classes: int
    method: str
    options: dict[str, Any]


def make(case: Case) -> None:
    """Write a user's labels.csv with images that are empty files, the prepared images and the observed labels."""
    random, n = np.random.default_rng(0), case.images
    split = ("train",) * n + ("validation",) * max(1, n // 10) + ("test",) * n
    names = tuple(f"images/{i // 1000:04d}/{i:07d}.jpg" for i in range(len(split)))
    for name in names:
        (case.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (case.folder / name).touch()
    labels = np.full((len(split), case.classes), ABSENT, np.int8)
    labels[np.repeat(np.arange(len(split)), PRESENTS), random.integers(0, case.classes, PRESENTS * len(split))] = (
        PRESENT
    )
    classes = tuple(f"class {i}" for i in range(case.classes))
    table.write(table.Table(classes, names, split, labels), case.folder / "labels.csv")
    write_json(case.folder / ABOUT, {"upright": False})
    np.save(case.folder / ROWS, random.integers(0, 256, (len(split), PIXELS, PIXELS, 3), np.uint8))


def prepare(case: Case) -> None:
    """Read and check the user's table, and write the project's."""
    table.write(datasets.read("folder", case.folder, case.folder).table, case.folder / "table.csv")


def corrupt(case: Case) -> None:
    """Draw the observed labels."""
    labels = table.read(case.folder / "table.csv")
    train = labels.take(labels.rows("train"))
    del labels
    observed = replace(train, labels=corruption.corrupt(train.labels, Setting.parse("pol_02"), 0))
    statistics(observed.labels)
    table.write(observed, case.folder / "observed.csv")


def train(case: Case, epochs: int = EPOCHS) -> None:
    """Train with a checkpoint after each epoch."""
    torch.set_num_threads(1)
    labels, observed = (table.read(case.folder / f"{name}.csv") for name in ("table", "observed"))
    options = {"weights": "none", "precision": "float32"}  # bfloat16 gives NaN on so few pixels on some processors
    recipe = Recipe(backbone=BACKBONE, lr=1e-3, batch_size=BATCH, epochs=epochs, **options)
    run = Run(method=case.method, options=case.options, seed=0, device="cpu")
    checkpoint = Checkpoint(case.folder, "run")
    training, validation = (examples(open_images(case.folder), labels, split) for split in ("train", "validation"))
    experiment.train(training._replace(labels=observed.labels), validation, recipe, run, checkpoint=checkpoint)
    checkpoint.wait()


def resume(case: Case) -> None:
    """Go on from the checkpoint of `train` for one more epoch."""
    train(case, EPOCHS + 1)


def score(case: Case) -> None:
    """Predict and evaluate the test images."""
    torch.set_num_threads(1)
    labels = table.read(case.folder / "table.csv")
    test = examples(open_images(case.folder), labels, "test")
    evaluate(labels.classes, test.labels, predict(Classifier(BACKBONE, case.classes), test))


STEPS: dict[str, Callable[[Case], None]] = {
    "prepare": prepare,
    "corrupt": corrupt,
    "train": train,
    "resume": resume,
    "evaluate": score,
}


def measure(sizes: list[tuple[int, int]], steps: list[str], method: str, options: str) -> None:
    """Print a line for each size and step, with its ratios to the same step at the first size.

    Args:
        sizes: numbers of training images and of classes.
        steps: names from `STEPS`, in this order; a step needs the ones before it.
        options: the method's, as JSON.
    """
    titles = ["images", "classes", "step", "clock, s", "CPU, s", "ratio", "memory, MB", "ratio", "with imports, MB"]
    print(f"| {' | '.join(titles)} |\n|{'--|' * len(titles)}")
    first: dict[str, Usage] = {}
    for images, classes in sizes:
        with tempfile.TemporaryDirectory() as folder:
            case = Case(Path(folder), images, classes, method, json.loads(options))
            in_own_process(make, case)
            for step in steps:
                usage = in_own_process(STEPS[step], case)
                base = first.setdefault(step, usage)
                cells = [f"{images:,}", f"{classes:,}", step, f"{usage.clock:.1f}", f"{usage.cpu:.1f}"]
                cells += [f"{usage.cpu / base.cpu:.1f}", f"{usage.memory / 1e6:,.0f}"]
                cells += [f"{usage.memory / base.memory:.1f}", f"{usage.peak / 1e6:,.0f}"]
                print(f"| {' | '.join(cells)} |", flush=True)
