"""From prepared images to logits."""

import os
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from mlml import parallel
from mlml.inputs import Examples, stream
from mlml.model import Classifier, Model

BATCH_SIZE = 64


def device_for(name: str) -> torch.device:
    """The device called `name`; "auto" is a GPU where there is one.

    Of several processes on a machine each gets a GPU of its own.

    Raises:
        ValueError: unknown, or not on this machine.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and parallel.processes() > 1:
        name = f"cuda:{os.environ['LOCAL_RANK']}"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            f"device: {name!r} is not allowed; it must be auto, or one that is here: cpu, cuda, cuda:1, ..."
        ) from error
    device = torch.device(name)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device


def over_all(examples: Examples, width: int, device: torch.device, compute: Callable[[Tensor], Tensor]) -> Tensor:
    """What `compute` makes of all images, batch by batch: float32 [n, width], on the device, in all processes.

    Of several processes each does a share of the batches.

    Args:
        compute: of a batch of images, on the device: float32 [b, width].
    """
    plane = torch.zeros(len(examples.rows), width, device=device)
    batches = torch.arange(len(plane)).split(BATCH_SIZE)[parallel.rank() :: parallel.processes()]
    for batch, images in zip(batches, stream(examples, batches, device), strict=True):
        plane[batch[0] : batch[-1] + 1] = compute(images)
    return parallel.add(plane)


@torch.no_grad()
def features(model: Classifier, given: Examples) -> Tensor:
    """What the backbone gives for all images in evaluation mode: float32 [n, width], on the model's device."""
    model.eval()
    return over_all(given, model.head.in_features, model.device, model.features)


def as_features(model: Classifier, given: Examples) -> Examples:
    """The same examples with their features instead of images, for a `LinearProbe`."""
    return given._replace(images=features(model, given), rows=np.arange(len(given.rows)))


@torch.inference_mode()
def predict(model: Model, examples: Examples) -> np.ndarray:
    """Logits of all images, float32 [n, L], in evaluation mode.

    Logits, not probabilities: those of confident predictions are the same number in float32.
    """
    model.eval()
    return over_all(examples, model.head.out_features, model.device, model).cpu().numpy()
