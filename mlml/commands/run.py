"""One run of a grid: what the stages corrupt, train and evaluate compute, without keeping weights or figures."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlml import corruption
from mlml.commands.grid import Job
from mlml.evaluation import DECIMALS, evaluate
from mlml.images import store
from mlml.labels import table
from mlml.model import loader, predict
from mlml.model.classifier import Classifier, LinearProbe, Model
from mlml.model.weights import NONE
from mlml.runtime.device import enough_memory
from mlml.training import experiment

RESULTS = ["validation_mAP", "best_epoch", "mAP", "seconds"]


class Features:
    """The features for linear probes, kept for the next run with the same backbone in this process.

    Args:
        report: is called with (wanted, computed): so many more images whose features are to be computed, and so many
            more whose features have been.
    """

    def __init__(self, report: Callable[[int, int], None] = lambda wanted, computed: None) -> None:
        self._report = report
        self._backbone: tuple[Any, ...] = ()
        self._kept: dict[bytes, loader.Examples] = {}  # by the numbers of the images

    def of(self, job: Job) -> Callable[[Classifier, loader.Examples], loader.Examples]:
        """`mlml.model.predict.as_features` for this run."""
        plan = job.recipe
        seed = job.run.seed if plan.weights == NONE else None  # of random weights
        backbone = (plan.backbone, plan.weights, plan.precision, plan.channels_last, seed)

        def represent(classifier: Classifier, examples: loader.Examples) -> loader.Examples:
            if backbone != self._backbone:
                self._backbone, self._kept = backbone, {}
            key = examples.rows.tobytes()
            if key not in self._kept:
                self._kept[key] = self._compute(classifier, examples)
            return self._kept[key]._replace(labels=examples.labels)

        return represent

    def _compute(self, classifier: Classifier, examples: loader.Examples) -> loader.Examples:
        self._report(len(examples.rows), 0)
        hook = classifier.backbone.register_forward_hook(lambda module, images, output: self._report(0, len(output)))
        try:
            return predict.as_features(classifier, examples)
        finally:
            hook.remove()


def run(job: Job, data: Path, features: Features) -> dict[str, Any]:
    """Do one run.

    Args:
        data: a folder with labels.csv and images/, as the stage prepare writes them.
        features: those of earlier runs in this process.

    Returns:
        the cells `RESULTS`; with the same number of threads they are those of the stages.

    Raises:
        ValueError, OSError, FloatingPointError, MemoryError: as the stages.
    """
    started = time.monotonic()
    labels, prepared = table.read(data / "labels.csv"), store.open_images(data / "images")
    training, validation, test = (loader.examples(prepared, labels, split) for split in table.SPLITS)
    observed = corruption.corrupt(training.labels, job.setting, job.corrupt_seed)
    training = training._replace(labels=corruption.check_observed(observed, job.setting))
    represent = features.of(job)
    trained = experiment.train(training, validation, job.recipe, job.run, features=represent)
    model: Model = trained.classifier
    with enough_memory("a smaller prepare.image_size or train.backbone needs less"):
        if job.recipe.linear_probe:
            test, model = represent(trained.classifier, test), LinearProbe(trained.classifier)
        logits = predict.predict(model, test)
    summary, _ = evaluate(labels.classes, test.labels, logits)
    score, seconds = round(trained.best.validation_mAP, DECIMALS), round(time.monotonic() - started, 1)
    return dict(zip(RESULTS, (score, trained.best.epoch, summary["mAP"], seconds), strict=True))
