"""By what to choose the epoch and the learning rate where validation labels are as partial as training labels.

Runs are trained with full validation and test labels at hand. Then labels of validation images are discarded as those
of training images were, and each criterion of `mlml.training.criterion` chooses by what is left. It loses the test mAP
of the choice by full validation labels, less that of its own.
"""

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np
import pandas as pd
import torch

from mlml import methods
from mlml.commands.grid import Job
from mlml.corruption import corrupt
from mlml.images import store
from mlml.labels import ABSENT, PRESENT, Labels, table
from mlml.metrics import mean_average_precision
from mlml.model import hardware, loader, weights
from mlml.model.classifier import Classifier, LinearProbe, Model
from mlml.model.predict import predict
from mlml.runtime.device import device_for, seed_everything
from mlml.training import criterion, loop
from mlml.training.features import Features

CRITERIA: tuple[criterion.Criterion, ...] = get_args(criterion.Criterion)


class Curve(NamedTuple):
    """A run by epochs: validation logits, float32 [E, n, L], and test mAP in percent, [E]."""

    logits: np.ndarray
    test_map: np.ndarray


def train(job: Job, data: Path, features: Features) -> Curve:
    """Train one run on the prepared data set in `data`, whose labels must be full."""
    labels, images = table.read(data / "labels.csv"), store.open_images(data / "images")
    table.check_complete(labels)
    training, validation, test = (loader.examples(images, labels, split) for split in table.SPLITS)
    seed_everything(job.run.seed)
    plan, device = job.recipe, device_for(job.run.device)
    classifier = Classifier(plan.backbone, len(labels.classes))
    weights.load_backbone(classifier, plan.weights)
    hardware.set_up_training(hardware.choose(plan, device, classifier, np.inf, 0), classifier)
    model: Model = classifier.to(device)
    training = training._replace(labels=corrupt(training.labels, job.setting, job.corrupt_seed))
    if plan.linear_probe:
        represent = features.of(data / "images")
        training, validation, test = (represent(classifier, each) for each in (training, validation, test))
        model, plan = LinearProbe(classifier), plan.model_copy(update={"flip": False})
    known = methods.TrainLabels(torch.from_numpy(training.labels), plan.prior, plan.epochs, job.setting.sampled)
    method = methods.build(job.run.method, known, job.run.options).to(device)
    logits, scores = [], []

    def look(epoch: object) -> None:
        logits.append(predict(model, validation))
        scores.append(100 * mean_average_precision(test.labels == PRESENT, predict(model, test)))

    loop.fit(model, method, training, validation, plan, job.run.seed, on_epoch=look)
    return Curve(np.stack(logits), np.array(scores))


def losses(runs: Iterable[tuple[Job, Curve]], labels: Labels, draws: int, absent: int = 0) -> pd.DataFrame:
    """What each criterion loses, in points of test mAP.

    Args:
        labels: int8 [n, L], the full validation labels.
        draws: how many times they are discarded.
        absent: so many absent labels of each image are known besides.

    Returns:
        one row per setting; for each criterion that the labels allow, a text: the loss where it chooses the epoch, mean
        over the runs, and where it chooses the learning rate too, mean over the methods and seeds.
    """
    groups: dict[tuple[str, str, int], list[tuple[Job, Curve]]] = defaultdict(list)
    for job, curve in runs:
        groups[str(job.setting), job.run.method, job.run.seed].append((job, curve))
    rows = []
    for (setting, _, _), group in groups.items():
        test, full = np.stack([curve.test_map for _, curve in group]), _values("mAP", labels, group)
        each = np.arange(len(test))
        for draw in range(1, draws + 1):  # 0 draws the training labels
            partial = corrupt(labels, group[0][0].setting, draw).copy()
            order = np.where(labels == ABSENT, np.random.RandomState(draw).random_sample(labels.shape), 1).argsort(1)
            np.put_along_axis(partial, order[:, :absent], ABSENT, 1)
            for name in CRITERIA:
                with suppress(ValueError):  # the labels do not allow it
                    criterion.choose(name, partial)
                    values = _values(name, partial, group)
                    by_epoch = test[each, full.argmax(1)] - test[each, values.argmax(1)]
                    by_both = test.flat[full.argmax()] - test.flat[values.argmax()]
                    rows.append([setting, name, by_epoch.mean(), by_both])
    means = (
        pd.DataFrame(rows, columns=["setting", "criterion", "epoch", "rate"]).groupby(["setting", "criterion"]).mean()
    )
    cells = means.apply(lambda row: f"{row['epoch']:.1f} / {row['rate']:.1f}", axis=1)
    return cells.unstack().reindex(columns=CRITERIA).fillna("")


def _values(name: criterion.Criterion, labels: Labels, group: list[tuple[Job, Curve]]) -> np.ndarray:
    """The criterion after each epoch of each run, [runs, E]; higher is better."""
    values = np.array([[criterion.score(name, labels, logits) for logits in curve.logits] for _, curve in group])
    return -values if name == "loss" else values
