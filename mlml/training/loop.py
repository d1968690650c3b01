"""The training loop that all methods share."""

import copy
import logging
from collections.abc import Callable

import torch
from torch import Tensor

from mlml.checkpoints.checkpoint import Checkpoint
from mlml.methods.base import Method
from mlml.model.classifier import Classifier, LinearProbe, Model
from mlml.model.loader import Examples
from mlml.model.predict import as_features
from mlml.runtime import parallel
from mlml.training import batches, criterion
from mlml.training.epoch import train_epoch, validate
from mlml.training.history import Epoch
from mlml.training.recipe import Recipe
from mlml.training.state import TrainState, make_optimizer
from mlml.training.trajectories import Recorder

logger = logging.getLogger(__name__)


def fit(
    model: Model,
    method: Method,
    train: Examples,
    validation: Examples,
    recipe: Recipe,
    seed: int,
    recorder: Recorder | None = None,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
    checkpoint: Checkpoint | None = None,
) -> Epoch:
    """Train `model` by `method`, leave in it the weights of the best epoch, and return that epoch.

    Every training image is seen once in every epoch, in an order drawn from `seed`. With `recipe.linear_init` the
    linear layer is trained alone first. Several processes (`mlml.runtime.parallel`) share each batch and end with the
    same weights.

    Args:
        train: with the observed labels.
        validation: labels may be unknown; see `mlml.training.criterion`.
        recorder: records the predictions of the images that it follows.
        on_epoch: called after each epoch, and at the start for those that a checkpoint holds.
        checkpoint: saves the state after each epoch and resumes from it, with the same bits as an uninterrupted run
            on the same machine. The main process's counts.

    Raises:
        FloatingPointError: the loss or a prediction is not finite; names the epoch, the step and the method.
        OSError: the checkpoint cannot be written.
        ValueError: no images, or fewer in a batch than there are processes; labels that no epoch can be chosen by.
    """
    check_sizes(len(train.rows), len(validation.rows), recipe.batch_size)
    chosen_by = criterion.choose(recipe.select_by, validation.labels)
    logger.info(criterion.line(chosen_by, validation.labels))
    order = torch.Generator().manual_seed(seed)
    optimizer = make_optimizer(model.parameters(), method, recipe.lr)
    state = TrainState(model, method, optimizer, order, recorder, chosen_by)
    observed = torch.from_numpy(train.labels).to(model.device)
    if not _resume(state, checkpoint, on_epoch) and recipe.linear_init and isinstance(model, Classifier):
        train_head(model, method, train, validation, recipe, observed, order, chosen_by)
        _save_checkpoint(state, checkpoint)
    predictions = torch.empty(observed.shape, device=model.device) if method.wants_predictions else None

    def keep(index: Tensor, batch: Tensor) -> None:
        if predictions is not None:
            predictions[index] = batch
        if recorder is not None:
            recorder.record(index, batch)

    for epoch in range(len(state.history) + 1, recipe.epochs + 1):
        label = f"epoch {epoch}/{recipe.epochs}"
        loss = train_epoch(state, train, observed, recipe, epoch, label, keep)
        parallel.average_buffers(model)
        parallel.same_random(model.device)
        method.end_epoch(epoch, predictions)
        if recorder is not None:
            recorder.end_epoch(method)
        state.finish(Epoch(epoch, loss, **validate(model, validation, chosen_by, label, method.name)))
        _save_checkpoint(state, checkpoint)  # first: an epoch that the user has heard of is kept
        on_epoch(state.history[-1])
        logger.info(f"epoch {epoch:2d}/{recipe.epochs}  loss {loss:.4f}  {state.history[-1].line()}")
    model.load_state_dict(state.weights)
    assert state.best
    return state.best


def train_head(
    model: Classifier,
    method: Method,
    train: Examples,
    validation: Examples,
    recipe: Recipe,
    observed: Tensor,
    order: torch.Generator,
    chosen_by: criterion.Criterion = "mAP",
) -> None:
    """Train the linear layer alone for `recipe.linear_init` epochs (Cole 2021, "LinearInit").

    The backbone stays as it is, in evaluation mode, and images are not flipped, as in the source. The method's own
    parameters are trained too; to the method all of this is epoch 1, which does not end. The linear layer and the
    method keep the state of the best epoch by `chosen_by`, in the source the validation mAP.
    """
    train, validation = as_features(model, train), as_features(model, validation)
    probe, recipe = LinearProbe(model), recipe.model_copy(update={"flip": False})
    optimizer = make_optimizer(probe.parameters(), method, recipe.lr)
    state = TrainState(probe, method, optimizer, order, criterion=chosen_by)
    best_method = method.state_dict()
    for epoch in range(1, recipe.linear_init + 1):
        label = f"linear init {epoch}/{recipe.linear_init}"
        loss = train_epoch(state, train, observed, recipe, 1, label)
        state.finish(Epoch(epoch, loss, **validate(probe, validation, chosen_by, label, method.name)))
        logger.info(f"linear init {epoch:2d}/{recipe.linear_init}  loss {loss:.4f}  {state.history[-1].line()}")
        if state.best is state.history[-1]:
            best_method = copy.deepcopy(method.state_dict())
    probe.load_state_dict(state.weights)
    method.load_state_dict(best_method)


def check_sizes(train: int, validation: int, batch_size: int) -> None:
    """Check that there are images to train and to validate on, and enough in a batch for all processes.

    Raises:
        ValueError: there are not.
    """
    if not train or not validation:
        raise ValueError(f"{train} training and {validation} validation images; both are needed")
    if batches.smallest(train, batch_size) < parallel.world_size():
        raise ValueError(
            f"train.batch_size: {batch_size} is not allowed with {parallel.world_size()} processes; each needs "
            "an image of every batch"
        )


def _resume(state: TrainState, checkpoint: Checkpoint | None, on_epoch: Callable[[Epoch], None]) -> bool:
    """Whether there was a checkpoint, which `state` was restored from."""
    saved = parallel.broadcast(lambda: checkpoint.load() if checkpoint else None)
    if saved is None:
        return False
    state.load_state_dict(saved)
    epochs = len(state.history)
    logger.info(f"resuming after epoch {epochs}" if epochs else "resuming after the linear layer's training")
    for epoch in state.history:
        on_epoch(epoch)
    return True


def _save_checkpoint(state: TrainState, checkpoint: Checkpoint | None) -> None:
    if checkpoint and parallel.is_main():
        checkpoint.save(state.state_dict())
