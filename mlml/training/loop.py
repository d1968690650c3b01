"""The training loop that all methods share."""

import logging
from collections.abc import Callable

import torch
from torch import Tensor

from mlml.checkpoints.checkpoint import Checkpoint
from mlml.core.progress import progress
from mlml.methods.base import Batch, Method
from mlml.model.classifier import Classifier, Model
from mlml.model.loader import Examples, stream
from mlml.runtime import parallel
from mlml.training import batches
from mlml.training.history import Best, Epoch
from mlml.training.linear_init import train_head
from mlml.training.optimizer import Optimizer
from mlml.training.recipe import Recipe
from mlml.training.running_loss import RunningLoss
from mlml.training.state import TrainState
from mlml.training.trajectories import Recorder
from mlml.training.validation import REMEDY, validation_map

logger = logging.getLogger(__name__)

CHECK_STEPS = 50  # how often the loss is shown, and seen to be finite


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
) -> Best:
    """Train `model` end to end by `method`, and leave in it the weights of the best epoch.

    Every training image is seen once in every epoch, in an order drawn from `seed`, after `recipe.linear_init` epochs
    of the linear layer alone. The device is the model's. Several processes (`mlml.runtime.parallel`) share each batch;
    all end with the same weights.

    Args:
        train: with the observed labels.
        validation: an unknown label counts in no AP.
        recorder: is given the predictions of the images it follows.
        on_epoch: called after each epoch; for those that a checkpoint holds, at the start.
        checkpoint: where the state after each epoch is kept, and taken up if it is there; the first process's counts.
            The result is the same to the bit as without an interruption, on the same machine.

    Raises:
        FloatingPointError: the loss or a prediction is not finite; names the epoch, the step and the method.
        OSError: the checkpoint cannot be written.
        ValueError: there is nothing to train or to validate on, or less in a batch than there are processes.
    """
    _check_sizes(len(train.rows), len(validation.rows), recipe.batch_size)
    device = model.device
    random = torch.Generator().manual_seed(seed)
    run = TrainState(model, method, Optimizer(model.parameters(), method, recipe.lr), random, recorder)
    if not _resume(run, checkpoint, on_epoch) and recipe.linear_init and isinstance(model, Classifier):
        train_head(model, method, train, validation, recipe, random)
        # Anew: that of the linear layer has taken over the method's own numbers.
        run.optimizer = Optimizer(model.parameters(), method, recipe.lr)
        _save_checkpoint(run, checkpoint)
    kept = torch.empty(train.labels.shape, device=device) if method.wants_predictions else None

    def keep(index: Tensor, predictions: Tensor) -> None:
        if kept is not None:
            kept[index] = predictions
        if recorder is not None:
            recorder.record(index, predictions)

    for epoch in range(len(run.history) + 1, recipe.epochs + 1):
        loss = train_epoch(run, train, recipe, epoch, keep)
        parallel.average_buffers(model)
        parallel.same_random(device)
        method.end_epoch(epoch, kept)
        if recorder is not None:
            recorder.end_epoch(method)
        score = validation_map(model, validation, f"epoch {epoch}", method.name)
        run.finish(Epoch(epoch, loss, score))
        logger.info(f"epoch {epoch:2d}/{recipe.epochs}  loss {loss:.4f}  validation mAP {score:.2f}")
        on_epoch(run.history[-1])
        _save_checkpoint(run, checkpoint)
    model.load_state_dict(run.weights)
    return run.best


def _check_sizes(train: int, validation: int, batch_size: int) -> None:
    if not train or not validation:
        raise ValueError(f"{train} training and {validation} validation images; both are needed")
    if batches.smallest(train, batch_size) < parallel.world_size():
        raise ValueError(
            f"train.batch_size: {batch_size} is not allowed with {parallel.world_size()} processes; each needs "
            "an image of every batch"
        )


def _resume(run: TrainState, checkpoint: Checkpoint | None, on_epoch: Callable[[Epoch], None]) -> bool:
    """Whether there was a checkpoint, which `run` then is in the state of."""
    state = parallel.broadcast(lambda: checkpoint.load() if checkpoint else None)
    if state is None:
        return False
    run.load_state_dict(state)
    logger.info(f"goes on after epoch {len(run.history)}")
    for epoch in run.history:
        on_epoch(epoch)
    return True


def _save_checkpoint(run: TrainState, checkpoint: Checkpoint | None) -> None:
    if checkpoint and parallel.is_main():
        checkpoint.save(run.state_dict())


def train_epoch(
    run: TrainState, train: Examples, recipe: Recipe, epoch: int, keep: Callable[[Tensor, Tensor], None]
) -> float:
    """One step for each batch; gives each step's predictions to `keep` and returns the mean loss an image."""
    run.model.train()
    method, optimizer, device = run.method, run.optimizer, run.model.device
    steps = batches.draw(len(train.rows), recipe.batch_size, recipe.flip, run.order, device)
    losses = RunningLoss(len(steps), device)
    observed = torch.from_numpy(train.labels).to(device)
    inputs = stream(train, [parallel.share(step.rows) for step in steps], device)
    with progress(
        f"epoch {epoch}/{recipe.epochs}", len(train.rows), "images", log=False, shown=parallel.is_main()
    ) as advance:
        for number, (step, images) in enumerate(zip(steps, inputs, strict=True), 1):
            if step.mirrored is not None:
                images = batches.flipped(images, parallel.share(step.mirrored))
            optimizer.zero_grad()
            logits = parallel.gather_batch(run.replica(images), len(step.rows))
            loss = method(logits, Batch(observed[step.index], step.index), epoch)
            loss.backward()
            optimizer.step()
            losses.add(loss)
            keep(step.index, logits.detach().sigmoid())
            if number % CHECK_STEPS == 0:
                advance(0, **_shown(losses.look(), run, epoch))
            advance(len(step.rows))
        each = losses.all()
        advance(0, **_shown(each, run, epoch))
    sizes = torch.tensor([len(step.rows) for step in steps])
    return float((each * sizes).sum() / sizes.sum())


def _shown(losses: Tensor, run: TrainState, epoch: int) -> dict[str, str]:
    """What stands beside the bar.

    Raises:
        FloatingPointError: a loss is not finite.
    """
    bad = torch.nonzero(~losses.isfinite())
    if len(bad):
        step = int(bad[0])
        raise FloatingPointError(
            f"epoch {epoch}, step {step + 1}: the loss of method {run.method.name} is {losses[step].item()}; {REMEDY}"
        )
    best = {"best_mAP": f"{max(run.best.validation_mAP, 0):.2f}"}
    return {"loss": f"{losses.mean().item():.4f}", **best} if len(losses) else best  # a GPU has sent none yet
