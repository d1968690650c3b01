"""One run: from prepared images and observed labels to a trained classifier."""

import logging
from collections.abc import Callable, Mapping
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mlml import methods
from mlml.checkpoints.checkpoint import Checkpoint
from mlml.model import hardware, weights
from mlml.model.classifier import Classifier, LinearProbe, Model, check_size
from mlml.model.loader import Examples, on_device
from mlml.model.predict import as_features
from mlml.runtime import parallel
from mlml.runtime.device import device_for, enough_memory, seed_everything
from mlml.settings import Setting
from mlml.training import criterion
from mlml.training.batches import smallest
from mlml.training.history import Epoch
from mlml.training.loop import check_sizes, fit
from mlml.training.recipe import Recipe, Run
from mlml.training.trajectories import Recorder

logger = logging.getLogger(__name__)


class Trained(NamedTuple):
    """The result of a run.

    Attributes:
        classifier: with the weights of the best epoch.
        recorder: predictions and pseudo labels of a few images, for the figures.
        hardware: how the hardware was used.
    """

    classifier: Classifier
    best: Epoch
    recorder: Recorder
    hardware: hardware.Chosen

    def save(self, folder: Path, about: Mapping[str, Any]) -> None:
        """Write weights.safetensors, with `about` (JSON values) in its metadata, and trajectories.npz."""
        folder.mkdir(parents=True, exist_ok=True)
        metadata = {**about, "epoch": self.best.epoch, **self.best.scores(), "engine": self.hardware.model_dump()}
        weights.save(self.classifier, folder / "weights.safetensors", metadata)
        self.recorder.save(folder / "trajectories.npz")
        logger.info(f"best epoch {self.best.epoch}: {self.best.line()}")


def train(
    training: Examples,
    validation: Examples,
    recipe: Recipe,
    run: Run,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
    checkpoint: Checkpoint | None = None,
    features: Callable[[Classifier, Examples], Examples] = as_features,
) -> Trained:
    """Train a new classifier. The result depends on the arguments, the machine and the libraries alone.

    Args:
        training: prepared images with the observed labels.
        on_epoch, checkpoint: see `mlml.training.loop.fit`.
        features: computes the features that a linear probe is trained on, or has them already.

    Raises:
        ValueError: a parameter is not allowed, or no epoch can be chosen by the validation labels.
        FloatingPointError, OSError: see `mlml.training.loop.fit`.
        MemoryError: a batch does not fit; says what needs less.
    """
    n, width = training.labels.shape
    check_sizes(n, len(validation.rows), recipe.batch_size)
    criterion.choose(recipe.select_by, validation.labels)  # before anything takes long
    device = device_for(run.device)
    seed_everything(run.seed)
    assert not isinstance(training.images, Tensor)
    size, classifier = training.images.size, Classifier(recipe.backbone, width)
    parts = 1 if recipe.sync_batch_norm and device.type == "cuda" else parallel.world_size()
    alone = smallest(n, recipe.batch_size) // parts <= 1
    check_size(classifier, size, alone and not recipe.linear_probe)
    weights.load_backbone(classifier, recipe.weights)
    train_labels = methods.TrainLabels(
        torch.from_numpy(training.labels), recipe.prior, recipe.epochs, Setting.parse(run.setting).sampled
    )
    remedy = (
        f"a batch has up to {recipe.batch_size} images of {size} x {size} pixels, "
        f"and one number for each of the {n} x {width} labels takes {4e-6 * n * width:,.0f} MB; "
        "less memory is needed with a smaller train.batch_size, prepare.image_size or train.backbone"
    )
    with enough_memory(remedy):
        chosen = _choose_hardware(recipe, device, classifier, size, n, len(validation.rows))
        classifier.to(device)
        method = methods.build(run.method, train_labels, run.options).to(device)
        for note in method.notes:
            logger.info(f"method: {run.method}, {note}")
        recorder = Recorder(n, width, run.seed, method, device)
        if chosen.inputs == "device" and not recipe.linear_probe:
            training, validation = on_device(training, device), on_device(validation, device)
        model: Model = classifier
        if recipe.linear_probe:
            training, validation = features(classifier, training), features(classifier, validation)
            model, recipe = LinearProbe(classifier), recipe.model_copy(update={"flip": False})
        best = fit(model, method, training, validation, recipe, run.seed, recorder, on_epoch, checkpoint)
    return Trained(classifier, best, recorder, chosen)


def _choose_hardware(
    recipe: Recipe, device: torch.device, classifier: Classifier, size: int, training: int, validation: int
) -> hardware.Chosen:
    pixels = size**2
    image_bytes, trained_pixels = (training + validation) * 3.0 * pixels, float(training * recipe.epochs * pixels)
    if recipe.linear_probe:  # each image is needed once, and the backbone is not trained
        image_bytes, trained_pixels = inf, 0.0
    chosen = hardware.choose(recipe, device, classifier, image_bytes, trained_pixels)
    hardware.set_up_training(chosen, classifier)
    logger.info(f"engine: {chosen.line()}")
    return chosen
