"""From prepared images to logits."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mlml.images import Images
from mlml.labels import Labels
from mlml.model import Classifier
from mlml.table import Table

BATCH_SIZE = 64


class Examples(NamedTuple):
    """Images with their labels.

    Attributes:
        images: the prepared images of all splits.
        rows: int64 [n], which of them.
        labels: int8 [n, L].
    """

    images: Images
    rows: np.ndarray
    labels: Labels


def examples(images: Images, table: Table, split: str) -> Examples:
    """The images of one split, with the labels of `table`.

    Raises:
        ValueError: there is not one image for each row of the table.
    """
    if len(images) != len(table.images):
        raise ValueError(f"{len(images)} prepared images for {len(table.images)} rows of labels: run `dvc repro`")
    rows = table.rows(split)
    return Examples(images, rows, table.labels[rows])


def device_for(name: str) -> torch.device:
    """The device called `name`; "auto" is a GPU where there is one.

    Raises:
        ValueError: unknown, or not on this machine.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            f"device: {name!r} is not allowed; it must be auto, or one that is here: cpu, cuda, cuda:1, ..."
        ) from error
    return torch.device(name)


def stream(examples: Examples, batches: Sequence[Tensor], device: torch.device) -> Iterator[Tensor]:
    """For each batch of indices into `examples`, int64 [b]: its images, uint8 [b, S, S, 3], on the device."""
    for images in examples.images.stream(examples.rows[batch.numpy()] for batch in batches):
        yield torch.from_numpy(images).to(device)


@torch.inference_mode()
def predict(model: Classifier, examples: Examples) -> np.ndarray:
    """Logits of all images, float32 [n, L], in evaluation mode.

    Logits, not probabilities: those of confident predictions are the same number in float32.
    """
    model.eval()
    device = model.mean.device
    batches = torch.arange(len(examples.rows)).split(BATCH_SIZE)
    logits = [model(images) for images in stream(examples, batches, device)]
    return torch.cat(logits).cpu().numpy()
