"""The training loop that all methods share."""

import copy
import os
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mlml.history import Epoch
from mlml.inference import Examples, predict, stream
from mlml.labels import PRESENT, UNKNOWN
from mlml.linear_init import train_head
from mlml.methods.base import Batch, Method
from mlml.metrics import mean_average_precision
from mlml.model import Classifier
from mlml.optimizer import adam
from mlml.progress import progress
from mlml.recipe import Recipe
from mlml.trajectories import Recorder

REMEDY = "a lower train.lr often helps"
CHECK_STEPS = 50  # how often the loop waits for the device, to show the loss and to see whether it is finite


class Best(NamedTuple):
    """The epoch with the highest validation mAP; of equal ones, the first. Its weights are in the model."""

    epoch: int
    validation_mAP: float


def seed_everything(seed: int) -> None:
    """Seed torch and take its deterministic algorithms: the same seed on the same machine, the same result."""
    torch.manual_seed(seed)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it, products on a GPU may differ
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False


def fit(
    model: Classifier,
    method: Method,
    train: Examples,
    validation: Examples,
    recipe: Recipe,
    seed: int,
    recorder: Recorder | None = None,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
) -> Best:
    """Train `model` end to end by `method`, and leave in it the weights of the best epoch.

    Every training image is seen once in every epoch, in an order drawn from `seed`, after `recipe.linear_init` epochs
    of the linear layer alone. The device is the model's.

    Args:
        train: with the observed labels.
        validation: an unknown label counts in no AP.
        recorder: is given the predictions of the images it follows.
        on_epoch: called after each epoch.

    Raises:
        FloatingPointError: the loss or a prediction is not finite; names the epoch, the step and the method.
        ValueError: there is nothing to train or to validate on.
    """
    if not len(train.rows) or not len(validation.rows):
        raise ValueError(f"{len(train.rows)} training and {len(validation.rows)} validation images; both are needed")
    truth, known = validation.labels == PRESENT, validation.labels != UNKNOWN
    device = model.mean.device
    random = torch.Generator().manual_seed(seed)
    if recipe.linear_init:
        train_head(model, method, train, recipe, random)
    optimizer = adam(model.parameters(), method, recipe.lr)
    kept = torch.empty(train.labels.shape, device=device) if method.wants_predictions else None

    def keep(index: Tensor, predictions: Tensor) -> None:
        if kept is not None:
            kept[index] = predictions
        if recorder is not None:
            recorder.record(index, predictions)

    best, weights = Best(0, -1.0), {}
    for epoch in range(1, recipe.epochs + 1):
        loss = _train_epoch(model, method, train, recipe, optimizer, random, epoch, keep, best)
        method.end_epoch(epoch, kept)
        if recorder is not None:
            recorder.end_epoch(method)
        logits = predict(model, validation)
        if not np.isfinite(logits).all():
            raise FloatingPointError(
                f"epoch {epoch}, validation: the predictions of method {method.name} are not finite; {REMEDY}"
            )
        score = 100 * mean_average_precision(truth, logits, known)
        if score > best.validation_mAP:
            best, weights = Best(epoch, score), copy.deepcopy(model.state_dict())
        print(f"epoch {epoch:2d}/{recipe.epochs}  loss {loss:.4f}  validation mAP {score:.2f}", flush=True)
        on_epoch(Epoch(epoch, loss, score))
    model.load_state_dict(weights)
    return best


def _train_epoch(
    model: Classifier,
    method: Method,
    train: Examples,
    recipe: Recipe,
    optimizer: torch.optim.Optimizer,
    random: torch.Generator,
    epoch: int,
    keep: Callable[[Tensor, Tensor], None],
    best: Best,
) -> float:
    """One step for each batch; gives each step's predictions to `keep` and returns the mean loss an image."""
    model.train()
    device = model.mean.device
    observed = torch.from_numpy(train.labels)
    batches = _batches(len(train.rows), recipe.batch_size, random)
    losses = torch.zeros(len(batches), device=device)
    with progress(f"epoch {epoch}/{recipe.epochs}", len(train.rows), "images", log=False) as advance:
        for step, (rows, images) in enumerate(zip(batches, stream(train, batches, device), strict=True), 1):
            if recipe.flip:
                images = _flip(images, random)
            batch = Batch(observed[rows].to(device), rows.to(device))
            logits = model(images)
            loss = method(logits, batch, epoch)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            losses[step - 1] = loss.detach()
            keep(batch.index, logits.detach().sigmoid())
            if step % CHECK_STEPS == 0 or step == len(batches):
                _check_finite(losses[:step], epoch, method)
                advance(0, loss=f"{losses[:step].mean().item():.4f}", best_mAP=f"{max(best.validation_mAP, 0):.2f}")
            advance(len(rows))
    sizes = torch.tensor([len(rows) for rows in batches], device=device)
    return float((losses * sizes).sum() / sizes.sum())


def _batches(n: int, batch_size: int, random: torch.Generator) -> tuple[Tensor, ...]:
    """All of 0..n-1 in random order, in as few batches as possible, whose sizes differ by at most one.

    A small last batch would be a noisy step, and batch normalisation cannot take one of a single image.
    """
    return torch.randperm(n, generator=random).tensor_split(-(-n // batch_size))


def _flip(images: Tensor, random: torch.Generator) -> Tensor:
    """Each image mirrored, left to right, with probability 0.5."""
    mirrored = (torch.rand(len(images), generator=random) < 0.5).to(images.device)
    return torch.where(mirrored[:, None, None, None], images.flip(2), images)


def _check_finite(losses: Tensor, epoch: int, method: Method) -> None:
    bad = torch.nonzero(~losses.isfinite())
    if len(bad):
        step = int(bad[0])
        raise FloatingPointError(
            f"epoch {epoch}, step {step + 1}: the loss of method {method.name} is {losses[step].item()}; {REMEDY}"
        )
