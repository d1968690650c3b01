"""The batches of an epoch: which images, in which order, and which of them are flipped."""

from typing import NamedTuple

import torch
from torch import Tensor


class Step(NamedTuple):
    """A batch of training images.

    Attributes:
        rows: int64 [b], rows of the training table, on the CPU.
        index: the same on the device.
        flipped: bool [b] on the device, which images are flipped left to right; None: none.
    """

    rows: Tensor
    index: Tensor  # type: ignore[assignment]  # hides tuple.index
    flipped: Tensor | None


def draw(n: int, batch_size: int, flip: bool, order: torch.Generator, device: torch.device) -> list[Step]:
    """Draw an epoch: all rows 0..n-1 in random order, in as few batches as possible of nearly equal size.

    Sizes differ by at most one. A small last batch would be a noisy step, and batch normalisation cannot take a batch
    of one. All is drawn and copied to the device at once, so that no step has to wait for a copy.

    Args:
        flip: whether an image is flipped with probability 0.5.
    """
    count = -(-n // batch_size)
    permutation = torch.randperm(n, generator=order)
    rows, index = permutation.tensor_split(count), permutation.to(device).tensor_split(count)
    flipped: list[Tensor | None] = [None] * count
    if flip:
        drawn = torch.cat([torch.rand(len(each), generator=order) for each in rows]) < 0.5
        flipped = [*drawn.to(device).tensor_split(count)]
    return [Step(*step) for step in zip(rows, index, flipped, strict=True)]


def smallest(n: int, batch_size: int) -> int:
    """Size of the smallest batch that `draw` makes of n > 0 images."""
    return n // -(-n // batch_size)


def flip(images: Tensor, flipped: Tensor) -> Tensor:
    """Images [b, S, S, 3], flipped left to right where `flipped`, bool [b], is true."""
    return torch.where(flipped[:, None, None, None], images.flip(2), images)
