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
        images: the prepared images of all splits; or, on the device, uint8 [m, S, S, 3], or the backbone's features,
            float32 [m, width].
        rows: int64 [n], which of them.
        labels: int8 [n, L].
    """

    images: Images | Tensor
    rows: np.ndarray
    labels: Labels


def examples(images: Images, table: Table, split: str) -> Examples:
    """The images of one split, with the labels of `table`.

    Raises:
        ValueError: the table does not have one row for each image.
    """
    if len(images) != len(table.images):
        raise ValueError(f"{len(images)} prepared images for {len(table.images)} rows of labels: run `dvc repro`")
    rows = table.rows(split)
    return Examples(images, rows, table.labels[rows])


def on_device(examples: Examples, device: torch.device) -> Examples:
    """The same examples, with only their own images, held on the device."""
    if isinstance(examples.images, Tensor):
        return examples
    size, n = examples.images.size, len(examples.rows)
    held = torch.empty(n, size, size, 3, dtype=torch.uint8, device=device)
    parts = torch.arange(n).split(CHUNK)
    for part, images in zip(parts, stream(examples, parts, device), strict=True):
        held[part[0] : part[-1] + 1] = images
    return examples._replace(images=held, rows=np.arange(n))


def stream(examples: Examples, batches: Sequence[Tensor], device: torch.device) -> Iterator[Tensor]:
    """Yield, for each batch of row numbers of `examples`, int64 [b], its images or features on the device.

    Images are uint8 [b, S, S, 3], features float32 [b, width].
    """
    if isinstance(examples.images, Tensor):
        return _select(examples.images, torch.from_numpy(examples.rows), batches)
    rows = (examples.rows[batch.numpy()] for batch in batches)
    if device.type == "cuda":
        return _copy_ahead(examples.images.stream(rows, _pinned), device)
    return (torch.from_numpy(images).to(device) for images in examples.images.stream(rows))


def _select(held: Tensor, rows: Tensor, batches: Sequence[Tensor]) -> Iterator[Tensor]:
    # One copy of all indices to the device: one for each batch would cost as many calls as there are batches.
    order = rows[torch.cat([rows.new_empty(0), *batches])].to(held.device)
    return (held[index] for index in order.split([len(batch) for batch in batches]))


def _pinned(shape: tuple[int, ...]) -> np.ndarray:
    """Memory that the GPU reads directly; torch's allocator reuses it."""
    return torch.empty(shape, dtype=torch.uint8, pin_memory=True).numpy()


def _copy_ahead(batches: Iterator[np.ndarray], device: torch.device) -> Iterator[Tensor]:
    """Copy each batch to the GPU on a side stream, while the GPU computes with the batch before."""
    side = torch.cuda.Stream(device)
    previous: tuple[Tensor, torch.cuda.Event] | None = None
    for batch in batches:
        with torch.cuda.stream(side):
            images = torch.from_numpy(batch).to(device, non_blocking=True)
            copied = side.record_event()
        if previous:
            yield _ready(*previous)
        previous = images, copied
    if previous:
        yield _ready(*previous)


def _ready(images: Tensor, copied: torch.cuda.Event) -> Tensor:
    current = torch.cuda.current_stream(images.device)
    current.wait_event(copied)
    images.record_stream(current)  # or the side stream could reuse the memory too early
    return images
