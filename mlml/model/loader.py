"""Images of a split on their way to the device, in batches."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mlml.images.store import Images
from mlml.labels import Labels
from mlml.labels.table import Table

CHUNK = 256  # images that are copied to the device at once


class Examples(NamedTuple):
    """Images with their labels.

    Attributes:
        images: the prepared images of all splits; or, on the device, uint8 [m, S, S, 3], or the backbone's features of
            them, float32 [m, width].
        rows: int64 [n], which of them.
        labels: int8 [n, L].
    """

    images: Images | Tensor
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


def on_device(given: Examples, device: torch.device) -> Examples:
    """The same examples with their images, and no others, held on the device."""
    if isinstance(given.images, Tensor):
        return given
    size, n = given.images.size, len(given.rows)
    held = torch.empty(n, size, size, 3, dtype=torch.uint8, device=device)
    parts = torch.arange(n).split(CHUNK)
    for part, images in zip(parts, stream(given, parts, device), strict=True):
        held[part[0] : part[-1] + 1] = images
    return given._replace(images=held, rows=np.arange(n))


def stream(given: Examples, batches: Sequence[Tensor], device: torch.device) -> Iterator[Tensor]:
    """For each batch of indices into `given`, int64 [b]: its images, uint8 [b, S, S, 3], or features, on the device."""
    if isinstance(given.images, Tensor):
        return _selected(given.images, torch.from_numpy(given.rows), batches)
    rows = (given.rows[batch.numpy()] for batch in batches)
    if device.type == "cuda":
        return _copied(given.images.stream(rows, _pinned), device)
    return (torch.from_numpy(images).to(device) for images in given.images.stream(rows))


def _selected(held: Tensor, rows: Tensor, batches: Sequence[Tensor]) -> Iterator[Tensor]:
    # All indices are copied at once: a copy for each batch would be as many calls as the batch's images need.
    order = rows[torch.cat([rows.new_empty(0), *batches])].to(held.device)
    return (held[index] for index in order.split([len(batch) for batch in batches]))


def _pinned(shape: tuple[int, ...]) -> np.ndarray:
    """Memory that the device reads by itself. torch gives the same pieces out again when they are free."""
    return torch.empty(shape, dtype=torch.uint8, pin_memory=True).numpy()


def _copied(batches: Iterator[np.ndarray], device: torch.device) -> Iterator[Tensor]:
    """The batches, each copied to the GPU on a stream of its own while the one before is computed with."""
    side = torch.cuda.Stream(device)
    before: tuple[Tensor, torch.cuda.Event] | None = None
    for batch in batches:
        with torch.cuda.stream(side):
            images = torch.from_numpy(batch).to(device, non_blocking=True)
            copied = side.record_event()
        if before:
            yield _taken(*before)
        before = images, copied
    if before:
        yield _taken(*before)


def _taken(images: Tensor, copied: torch.cuda.Event) -> Tensor:
    current = torch.cuda.current_stream(images.device)
    current.wait_event(copied)
    images.record_stream(current)  # or the side stream could reuse its memory too early
    return images
