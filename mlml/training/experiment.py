"""One run of the axes: from prepared images and observed labels to a trained classifier."""

import logging
from collections.abc import Callable, Mapping
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import torch

from mlml import methods
from mlml.checkpoints.checkpoint import Checkpoint
from mlml.images.store import Images
from mlml.labels import Labels
from mlml.labels.table import Table
from mlml.model import hardware, weights
from mlml.model.classifier import Classifier, LinearProbe, Model, check_size
from mlml.model.loader import Examples, examples, on_device
from mlml.model.predict import as_features
from mlml.runtime import parallel
from mlml.runtime.device import device_for, enough_memory, seed_everything
from mlml.settings import Setting
from mlml.training import sync_batch_norm
from mlml.training.batches import smallest
from mlml.training.history import Best, Epoch
from mlml.training.loop import fit
from mlml.training.recipe import Recipe, Run
from mlml.training.trajectories import Recorder

logger = logging.getLogger(__name__)


class Trained(NamedTuple):
    """What a run leaves.

    Attributes:
        classifier: with the weights of the best epoch.
        recorder: what was recorded on the way.
        engine: how the hardware was used.
    """

    classifier: Classifier
    best: Best
    recorder: Recorder
    engine: hardware.Chosen

    def save(self, folder: Path, about: Mapping[str, Any]) -> None:
        """Write weights.safetensors, with `about` (JSON values) and what is known of the run, and trajectories.npz."""
        folder.mkdir(parents=True, exist_ok=True)
        known = {**about, **self.best._asdict(), "engine": self.engine._asdict()}
        weights.save(self.classifier, folder / "weights.safetensors", known)
        self.recorder.save(folder / "trajectories.npz")
        logger.info(f"best epoch {self.best.epoch}: validation mAP {self.best.validation_mAP:.2f}")


def train(
    images: Images,
    table: Table,
    observed: Labels,
    recipe: Recipe,
    axes: Run,
    options: Mapping[str, Any] | None,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
    checkpoint: Checkpoint | None = None,
    represent: Callable[[Classifier, Examples], Examples] = as_features,
) -> Trained:
    """Train a new classifier. Its result depends on nothing but the arguments, the machine and the libraries.

    Args:
        images: of all rows of `table`.
        table: the full labels; those of the training images are not looked at.
        observed: int8 [n, L], the observed labels of the training images.
        options: the method's.
        on_epoch, checkpoint: see `mlml.training.loop.fit`.
        represent: gives the features that a linear probe is trained on.

    Raises:
        ValueError: a parameter is not allowed.
        FloatingPointError, OSError: see `mlml.training.loop.fit`.
        MemoryError: a batch does not fit; says what needs less.
    """
    sampled, device = Setting.parse(axes.setting).sampled, device_for(axes.device)
    seed_everything(axes.seed)
    classifier = Classifier(recipe.backbone, len(table.classes))
    training = examples(images, table, "train")._replace(labels=observed)
    validation = examples(images, table, "validation")
    check_size(classifier, images.size, not recipe.linear_probe and _alone(len(training.rows), recipe))
    weights.load_backbone(classifier, recipe.weights)
    chosen = _engine(recipe, device, classifier, images, len(training.rows), len(validation.rows))
    classifier.to(device)
    known = methods.TrainLabels(torch.from_numpy(observed), recipe.prior, recipe.epochs, sampled)
    n, width = observed.shape
    less = (
        f"a batch has up to {recipe.batch_size} images of {images.size} x {images.size} pixels, "
        f"and one number for each of the {n} x {width} labels takes {4e-6 * n * width:,.0f} MB; "
        "less memory is needed with a smaller train.batch_size, prepare.image_size or train.backbone"
    )
    with enough_memory(less):
        method = methods.build(axes.method, known, options).to(device)
        for note in method.notes:
            logger.info(f"method: {axes.method}, {note}")
        recorder = Recorder(n, width, axes.seed, method, device)
        if chosen.inputs == "device":
            training, validation = on_device(training, device), on_device(validation, device)
        model: Model = classifier
        if recipe.linear_probe:
            training, validation = represent(classifier, training), represent(classifier, validation)
            model, recipe = LinearProbe(classifier), recipe.model_copy(update={"flip": False})
        best = fit(model, method, training, validation, recipe, axes.seed, recorder, on_epoch, checkpoint)
    return Trained(classifier, best, recorder, chosen)


def _alone(n: int, recipe: Recipe) -> bool:
    """Whether a batch, or what batch normalisation sees of it, has a single image."""
    parts = 1 if recipe.sync_batch_norm else parallel.world_size()
    return n > 0 and smallest(n, recipe.batch_size) // parts <= 1


def _engine(
    recipe: Recipe, device: torch.device, classifier: Classifier, images: Images, training: int, validation: int
) -> hardware.Chosen:
    pixels = images.size**2
    image_bytes, seen = (training + validation) * 3.0 * pixels, training * recipe.epochs * pixels
    if recipe.linear_probe:  # all images are needed once, and the backbone is not trained
        image_bytes, seen = inf, 0
    chosen = hardware.choose(recipe, device, classifier, image_bytes, seen)
    hardware.use(chosen, classifier)
    if chosen.sync_batch_norm:
        sync_batch_norm.synchronise(classifier, device)
    logger.info(f"engine: {chosen.line()}")
    return chosen
