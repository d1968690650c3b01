"""One run of a grid: what the stages corrupt, train and evaluate compute, without keeping weights or figures."""

import time
from pathlib import Path
from typing import Any

from mlml import corruption
from mlml.commands.grid import Job
from mlml.evaluation import DECIMALS, evaluate
from mlml.images import store
from mlml.labels import table
from mlml.model import loader, predict
from mlml.model.classifier import LinearProbe, Model
from mlml.runtime.device import enough_memory
from mlml.training import experiment
from mlml.training.features import Features
from mlml.training.history import SCORES

RESULTS = [*SCORES, "best_epoch", "mAP", "seconds"]


def run(job: Job, data: Path, features: Features) -> dict[str, Any]:
    """Do one run.

    Args:
        data: a folder with labels.csv and images/, as the stage prepare writes them.
        features: for linear probes, those of earlier runs.

    Returns:
        the cells `RESULTS`, without scores that have no value; with the same number of threads they are those of the
        stages.

    Raises:
        ValueError, OSError, FloatingPointError, MemoryError: as the stages.
    """
    started = time.monotonic()
    labels, prepared = table.read(data / "labels.csv"), store.open_images(data / "images")
    training, validation, test = (loader.examples(prepared, labels, split) for split in table.SPLITS)
    observed = corruption.corrupt(training.labels, job.setting, job.corrupt_seed)
    training = training._replace(labels=corruption.check_observed(observed, job.setting))
    table.check_splits(labels, data / "labels.csv")
    represent = features.of(data / "images")
    trained = experiment.train(training, validation, job.recipe, job.run, features=represent)
    model: Model = trained.classifier
    with enough_memory("a smaller prepare.image_size or train.backbone needs less"):
        if job.recipe.linear_probe:
            test, model = represent(trained.classifier, test), LinearProbe(trained.classifier)
        logits = predict.predict(model, test)
    summary, _ = evaluate(labels.classes, test.labels, logits)
    scores = {name: round(value, DECIMALS) for name, value in trained.best.scores().items()}
    seconds = round(time.monotonic() - started, 1)
    return {**scores, "best_epoch": trained.best.epoch, "mAP": summary["mAP"], "seconds": seconds}
