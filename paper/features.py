"""The features of linear probes, for one run after the other."""

from collections.abc import Callable
from typing import Any

from mlml.model import loader, predict
from mlml.model.classifier import Classifier
from mlml.model.weights import NONE
from paper.jobs import Job


class Features:
    """Features of one prepared data set, kept for the next run with the same backbone in this process."""

    def __init__(self) -> None:
        self._backbone: tuple[Any, ...] = ()
        self._kept: dict[bytes, loader.Examples] = {}  # by the numbers of the images

    def of(self, job: Job) -> Callable[[Classifier, loader.Examples], loader.Examples]:
        """`mlml.model.predict.as_features` for this run."""
        plan = job.plan
        seed = job.axes.seed if plan.weights == NONE else None  # of random weights
        backbone = (plan.backbone, plan.weights, plan.precision, plan.channels_last, seed)

        def represent(classifier: Classifier, given: loader.Examples) -> loader.Examples:
            if backbone != self._backbone:
                self._backbone, self._kept = backbone, {}
            key = given.rows.tobytes()
            if key not in self._kept:
                self._kept[key] = predict.as_features(classifier, given)
            return self._kept[key]._replace(labels=given.labels)

        return represent
