"""One epoch: a step for each batch of training images, and the validation scores after it."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from mlml.core.progress import progress
from mlml.methods.base import Batch
from mlml.model.classifier import Model
from mlml.model.loader import Examples, stream
from mlml.model.predict import predict
from mlml.runtime import parallel
from mlml.training import batches, criterion
from mlml.training.recipe import Recipe
from mlml.training.state import TrainState

CHECK_STEPS = 50  # how often the loss is shown and checked; each time a GPU has to finish its queue
REMEDY = "a lower train.lr often helps"


def train_epoch(
    state: TrainState,
    train: Examples,
    observed: Tensor,
    recipe: Recipe,
    epoch: int,
    label: str,
    keep: Callable[[Tensor, Tensor], None] = lambda index, predictions: None,
) -> float:
    """Train on every image once.

    Args:
        observed: int8 [n, L], the labels of `train` on the model's device.
        epoch: what the method is told, from 1.
        label: names the epoch in the progress bar and in errors.
        keep: called with each step's rows, int64 [b], and predictions, float32 [b, L].

    Returns:
        the mean loss per image.

    Raises:
        FloatingPointError: a loss is not finite; names the epoch, the step and the method.
    """
    state.model.train()
    method, optimizer, device = state.method, state.optimizer, state.model.device
    steps = batches.draw(len(train.rows), recipe.batch_size, recipe.flip, state.order, device)
    losses = torch.zeros(len(steps), device=device)
    inputs = stream(train, [parallel.share(step.rows) for step in steps], device)
    with progress(label, len(train.rows), "images", log=False, shown=parallel.is_main()) as advance:
        for number, (step, images) in enumerate(zip(steps, inputs, strict=True), 1):
            if step.flipped is not None:
                images = batches.flip(images, parallel.share(step.flipped))
            optimizer.zero_grad(set_to_none=True)
            logits = parallel.gather_batch(state.replica(images), len(step.rows))
            loss = method(logits, Batch(observed[step.index], step.index), epoch)
            loss.backward()
            optimizer.step()
            losses[number - 1] = loss.detach()
            keep(step.index, logits.detach().sigmoid())
            if number % CHECK_STEPS == 0 or number == len(steps):
                advance(0, **_facts(losses[:number].cpu(), state, label))
            advance(len(step.rows))
    sizes = torch.tensor([len(step.rows) for step in steps])
    return float((losses.cpu() * sizes).sum() / sizes.sum())


def _facts(losses: Tensor, state: TrainState, label: str) -> dict[str, str]:
    """The facts beside the progress bar.

    Raises:
        FloatingPointError: a loss is not finite.
    """
    bad = torch.nonzero(~losses.isfinite())
    if len(bad):
        step = int(bad[0])
        raise FloatingPointError(
            f"{label}, step {step + 1}: the loss of method {state.method.name} is {losses[step].item()}; {REMEDY}"
        )
    best = state.value(state.best) if state.best else 0.0
    return {"loss": f"{losses.mean().item():.4f}", f"best_{state.criterion}": f"{best:.2f}"}


def validate(
    model: Model, validation: Examples, chosen_by: criterion.Criterion, label: str, method: str
) -> dict[str, float]:
    """The validation mAP, NaN where it is not defined, and the criterion, by their names in `Epoch`.

    Raises:
        FloatingPointError: a prediction is not finite; names the epoch and the method.
    """
    logits = predict(model, validation)
    if not np.isfinite(logits).all():
        raise FloatingPointError(f"{label}, validation: the predictions of method {method} are not finite; {REMEDY}")
    names: list[criterion.Criterion] = ["mAP"] if chosen_by == "mAP" else ["mAP", chosen_by]
    return {f"validation_{name}": criterion.score(name, validation.labels, logits) for name in names}
