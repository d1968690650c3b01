"""From prepared images to logits."""

import os
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from mlml import parallel
from mlml.inputs import Examples, stream
from mlml.model import Classifier

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
        compute: of images uint8 [b, S, S, 3], on the device: float32 [b, width].
    """
    plane = torch.zeros(len(examples.rows), width, device=device)
    batches = torch.arange(len(plane)).split(BATCH_SIZE)[parallel.rank() :: parallel.processes()]
    for batch, images in zip(batches, stream(examples, batches, device), strict=True):
        plane[batch[0] : batch[-1] + 1] = compute(images)
    return parallel.add(plane)


@torch.inference_mode()
def predict(model: Classifier, examples: Examples) -> np.ndarray:
    """Logits of all images, float32 [n, L], in evaluation mode.

    Logits, not probabilities: those of confident predictions are the same number in float32.
    """
    model.eval()
    return over_all(examples, model.head.out_features, model.mean.device, model).cpu().numpy()
