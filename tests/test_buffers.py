"""Memory is given out again only when nobody can see it."""

import gc
from collections.abc import Callable

import numpy as np
import pytest
import torch

from mlml.buffers import Buffers
from mlml.images import RowImages

SHAPE = (4, 5, 5, 3)


def place(array: np.ndarray) -> int:
    return array.ctypes.data


def test_memory_that_nobody_refers_to_is_given_out_again() -> None:
    buffers = Buffers()
    one, two = buffers(SHAPE), buffers(SHAPE)
    assert place(one) != place(two)
    places = {place(one), place(two)}
    del one, two
    again = [buffers(SHAPE), buffers(SHAPE)]
    assert {place(each) for each in again} == places
    assert place(buffers(SHAPE)) not in places


@pytest.mark.parametrize(
    "view",
    [lambda a: a[1:2, ..., 0], lambda a: a.reshape(-1)[::2], torch.from_numpy, lambda a: torch.from_numpy(a)[2:].mT],
)
def test_memory_that_is_still_seen_is_not(view: Callable[[np.ndarray], object]) -> None:
    buffers = Buffers()
    images = buffers(SHAPE)
    images[:] = 1
    seen = view(images)
    del images
    gc.collect()
    buffers(SHAPE)[:] = 2
    assert (torch.as_tensor(seen) == 1).all()


def test_a_smaller_batch_fits_and_a_larger_one_gets_more() -> None:
    buffers = Buffers()
    images = buffers(SHAPE)
    first = place(images)
    del images
    images = buffers((3, *SHAPE[1:]))
    assert (images.shape, place(images)) == ((3, *SHAPE[1:]), first)
    del images
    images = buffers((9, *SHAPE[1:]))
    images[:] = 7
    assert images.shape == (9, *SHAPE[1:])
    assert images.dtype == np.uint8


def test_batches_that_are_all_kept_are_all_right() -> None:
    rows = np.random.default_rng(0).integers(0, 256, (20, *SHAPE[1:]), dtype=np.uint8)
    order = np.random.default_rng(1).permutation(20)
    batches = order.reshape(5, 4)
    kept = [*RowImages(rows).stream(batches, Buffers())]
    assert np.array_equal(np.concatenate(kept), rows[order])
