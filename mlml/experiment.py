"""One run of the axes: from prepared images and observed labels to a trained classifier."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

from mlml import methods
from mlml.checkpoint import Checkpoint
from mlml.history import Best, Epoch
from mlml.images import Images
from mlml.inference import device_for, examples
from mlml.labels import Labels
from mlml.memory import enough_memory
from mlml.model import Classifier, check_size, load_backbone
from mlml.recipe import Recipe, Run
from mlml.table import Table
from mlml.training import fit, seed_everything
from mlml.trajectories import Recorder


class Trained(NamedTuple):
    """What a run leaves: the classifier with the weights of the best epoch, and what was recorded on the way."""

    classifier: Classifier
    best: Best
    recorder: Recorder


def train(
    images: Images,
    table: Table,
    observed: Labels,
    recipe: Recipe,
    axes: Run,
    options: Mapping[str, Any] | None,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
    checkpoint: Checkpoint | None = None,
) -> Trained:
    """Train a new classifier. Its result depends on nothing but the arguments, the machine and the libraries.

    Args:
        images: of all rows of `table`.
        table: the full labels; those of the training images are not looked at.
        observed: int8 [n, L], the observed labels of the training images.
        options: the method's.
        on_epoch, checkpoint: see `mlml.training.fit`.

    Raises:
        ValueError: a parameter is not allowed.
        FloatingPointError, OSError: see `mlml.training.fit`.
        MemoryError: a batch does not fit; says what needs less.
    """
    device = device_for(axes.device)
    seed_everything(axes.seed)
    classifier = Classifier(recipe.backbone, len(table.classes))
    check_size(classifier, images.size)
    load_backbone(classifier, recipe.weights)
    known = methods.TrainLabels(torch.from_numpy(observed), recipe.prior, recipe.epochs)
    method = methods.build(axes.method, known, options).to(device)
    classifier.to(device)
    training = examples(images, table, "train")._replace(labels=observed)
    recorder = Recorder(len(training.rows), len(table.classes), axes.seed, method, device)
    validation = examples(images, table, "validation")
    less = (
        f"a batch has up to {recipe.batch_size} images of {images.size} x {images.size} pixels; "
        f"less memory is needed with a smaller train.batch_size, prepare.image_size or train.backbone"
    )
    with enough_memory(less):
        best = fit(classifier, method, training, validation, recipe, axes.seed, recorder, on_epoch, checkpoint)
    return Trained(classifier, best, recorder)
