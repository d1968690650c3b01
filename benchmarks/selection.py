"""By what to choose the epoch and the learning rate where validation labels are as partial as training labels.

Runs are trained with full validation and test labels at hand. Then labels of validation images are discarded as those
of training images were, and each criterion of `mlml.training.criterion` chooses by what is left. It loses the test mAP
of the choice by full validation labels, less that of its own.
"""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np
import pandas as pd
import torch

from mlml import methods
from mlml.commands.grid import Job
from mlml.corruption import corrupt
from mlml.images import store
from mlml.labels import PRESENT, Labels, table
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


def losses(runs: Iterable[tuple[Job, Curve]], labels: Labels, draws: int) -> pd.DataFrame:
    """What each criterion loses, in points of test mAP.

    Args:
        labels: int8 [n, L], the full validation labels.
        draws: how many times they are discarded.

    Returns:
        one row for each setting and criterion: `epoch`, the mean over the runs, and `rate`, the mean over methods and
        seeds, where the learning rate is chosen too.
    """
    groups: dict[tuple[str, str, int], list[tuple[Job, Curve]]] = defaultdict(list)
    for job, curve in runs:
        groups[str(job.setting), job.run.method, job.run.seed].append((job, curve))
    rows = []
    for (setting, method, seed), group in groups.items():
        test = np.stack([curve.test_map for _, curve in group])
        full = _values("mAP", labels, group)
        for draw in range(draws):
            partial = corrupt(labels, group[0][0].setting, 1 + draw)  # 0 draws the training labels
            for name in CRITERIA:
                values = _values(name, partial, group)
                each = np.arange(len(test))
                by_epoch = test[each, full.argmax(1)] - test[each, values.argmax(1)]
                by_both = test.flat[full.argmax()] - test.flat[values.argmax()]
                rows.append([setting, method, seed, name, by_epoch.mean(), by_both])
    found = pd.DataFrame(rows, columns=["setting", "method", "seed", "criterion", "epoch", "rate"])
    return found.groupby(["setting", "criterion"], sort=False)[["epoch", "rate"]].mean().reset_index()


def _values(name: criterion.Criterion, labels: Labels, group: list[tuple[Job, Curve]]) -> np.ndarray:
    """The criterion after each epoch of each run, higher is better, [runs, E]; the lowest where it is not defined."""
    values = np.array([[criterion.score(name, labels, logits) for logits in curve.logits] for _, curve in group])
    return np.nan_to_num(-values if name == "loss" else values, nan=-np.inf)
