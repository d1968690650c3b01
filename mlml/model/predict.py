"""From prepared images to features and logits."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from mlml.core.progress import progress
from mlml.model.classifier import Classifier, Model
from mlml.model.loader import Examples, stream
from mlml.runtime import parallel

BATCH_SIZE = 64


def map_batches(
    examples: Examples, width: int, device: torch.device, compute: Callable[[Tensor], Tensor], label: str
) -> Tensor:
    """Apply `compute` to all images, batch by batch: float32 [n, width] on the device, in all processes.

    Several processes share the batches.

    Args:
        compute: takes a batch of images on the device, returns float32 [b, width].
        label: of the progress bar; empty: none is shown.
    """
    rows = torch.zeros(len(examples.rows), width, device=device)
    batches = torch.arange(len(rows)).split(BATCH_SIZE)[parallel.rank() :: parallel.world_size()]
    shown = bool(label) and parallel.is_main()
    with progress(label, sum(map(len, batches)), "images", shown=shown) as advance:
        for batch, images in zip(batches, stream(examples, batches, device), strict=True):
            rows[batch[0] : batch[-1] + 1] = compute(images)
            advance(len(batch))
    return parallel.all_reduce(rows)


@torch.no_grad()
def as_features(model: Classifier, examples: Examples) -> Examples:
    """The same examples with the backbone's features, in evaluation mode, instead of images; for a `LinearProbe`.

    The features are float32 [n, width] on the model's device.
    """
    model.eval()
    features = map_batches(examples, model.head.in_features, model.device, model.features, "features")
    return examples._replace(images=features, rows=np.arange(len(examples.rows)))


@torch.inference_mode()
def predict(model: Model, examples: Examples, label: str = "") -> np.ndarray:
    """Logits of all images, float32 [n, L], in evaluation mode.

    Logits and not probabilities: in float32 many confident probabilities are the same number.

    Args:
        label: of a progress bar, if one is to be shown.
    """
    model.eval()
    return map_batches(examples, model.head.out_features, model.device, model, label).cpu().numpy()
