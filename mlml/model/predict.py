"""From prepared images to logits."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from mlml.model.classifier import Classifier, Model
from mlml.model.loader import Examples, stream
from mlml.runtime import parallel

BATCH_SIZE = 64


def over_all(examples: Examples, width: int, device: torch.device, compute: Callable[[Tensor], Tensor]) -> Tensor:
    """What `compute` makes of all images, batch by batch: float32 [n, width], on the device, in all processes.

    Of several processes each does a share of the batches.

    Args:
        compute: of a batch of images, on the device: float32 [b, width].
    """
    plane = torch.zeros(len(examples.rows), width, device=device)
    batches = torch.arange(len(plane)).split(BATCH_SIZE)[parallel.rank() :: parallel.world_size()]
    for batch, images in zip(batches, stream(examples, batches, device), strict=True):
        plane[batch[0] : batch[-1] + 1] = compute(images)
    return parallel.all_reduce(plane)


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
