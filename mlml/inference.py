"""From prepared images to logits."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mlml.images import Rows
from mlml.labels import Labels
from mlml.model import Classifier
from mlml.table import Table

BATCH_SIZE = 64


class Examples(NamedTuple):
    """Images with their labels.

    Attributes:
        images: uint8 [N, S, S, 3], the prepared images of all splits, usually a memory map.
        rows: int64 [n], which of them.
        labels: int8 [n, L].
    """

    images: Rows
    rows: np.ndarray
    labels: Labels


def examples(images: Rows, table: Table, split: str) -> Examples:
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


def gather(examples: Examples, index: Tensor, device: torch.device) -> Tensor:
    """The images of these examples, uint8 [b, S, S, 3], on the device."""
    return torch.from_numpy(examples.images[examples.rows[index.numpy()]]).to(device)


@torch.inference_mode()
def predict(model: Classifier, examples: Examples) -> np.ndarray:
    """Logits of all images, float32 [n, L], in evaluation mode.

    Logits, not probabilities: those of confident predictions are the same number in float32.
    """
    model.eval()
    device = model.mean.device
    index = torch.arange(len(examples.rows))
    logits = [model(gather(examples, part, device)) for part in index.split(BATCH_SIZE)]
    return torch.cat(logits).cpu().numpy()
