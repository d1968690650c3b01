"""What each step of an epoch trains on."""

from typing import NamedTuple

import torch
from torch import Tensor


class Step(NamedTuple):
    """A batch of training images.

    Attributes:
        rows: int64 [b], which ones, on the CPU.
        index: the same on the device.
        mirrored: bool [b] on the device, which of them are seen in a mirror; None: none.
    """

    rows: Tensor
    index: Tensor  # type: ignore[assignment]  # hides tuple.index
    mirrored: Tensor | None


def draw(n: int, batch_size: int, flip: bool, random: torch.Generator, device: torch.device) -> list[Step]:
    """An epoch: all of 0..n-1 in random order, in as few batches as possible, whose sizes differ by at most one.

    A small last batch would be a noisy step, and batch normalisation cannot take one of a single image. All is drawn at
    once, so that a step has nothing to copy to the device.

    Args:
        flip: whether an image is mirrored with probability 0.5.
    """
    count = -(-n // batch_size)
    order = torch.randperm(n, generator=random)
    rows = order.tensor_split(count)
    index = order.to(device).tensor_split(count)
    mirrored: list[Tensor | None] = [None] * count
    if flip:
        drawn = torch.cat([torch.rand(len(each), generator=random) for each in rows]) < 0.5
        mirrored = [*drawn.to(device).tensor_split(count)]
    return [Step(*step) for step in zip(rows, index, mirrored, strict=True)]


def smallest(n: int, batch_size: int) -> int:
    """The size of the smallest batch that `draw` makes of n > 0 images."""
    return n // -(-n // batch_size)


def flipped(images: Tensor, mirrored: Tensor) -> Tensor:
    """Images [b, S, S, 3], each mirrored, left to right, where `mirrored`, bool [b], says so."""
    return torch.where(mirrored[:, None, None, None], images.flip(2), images)
