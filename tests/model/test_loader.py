"""Images of a split on their way to the device."""

import numpy as np
import pytest
import torch

from mlml.images.store import RowImages
from mlml.model.loader import CHUNK, Examples, on_device, stream
from tests.shared import needs_gpu

CPU = torch.device("cpu")


def given(n: int = 40) -> Examples:
    images = np.random.RandomState(0).randint(0, 256, (n, 4, 4, 3), np.uint8)
    rows = np.random.RandomState(1).permutation(n)[: n // 2]
    return Examples(RowImages(images), rows, np.ones((len(rows), 2), np.int8))


BATCHES = [torch.tensor([3, 0]), torch.tensor([19]), torch.tensor([7, 7, 1])]


def check(examples: Examples, device: torch.device) -> None:
    source = given()
    assert isinstance(source.images, RowImages)
    found = list(stream(examples, BATCHES, device))
    assert len(found) == len(BATCHES)
    for batch, images in zip(BATCHES, found, strict=True):
        assert images.device.type == device.type
        assert np.array_equal(images.cpu().numpy(), source.images._rows[source.rows[batch.numpy()]])


def test_batches_are_the_images_of_the_splits_rows() -> None:
    check(given(), CPU)
    assert list(stream(given(), [], CPU)) == []


def test_held_on_the_device_they_are_the_same() -> None:
    held = on_device(given(), CPU)
    assert isinstance(held.images, torch.Tensor)
    assert held.images.shape == (20, 4, 4, 3)  # those of the split alone
    check(held, CPU)
    assert list(stream(held, [], CPU)) == []
    assert on_device(held, CPU) is held


def test_more_images_than_are_copied_at_once() -> None:
    source = given(4 * CHUNK + 6)
    held = on_device(source, CPU)
    (whole,) = stream(source, [torch.arange(len(source.rows))], CPU)
    assert torch.equal(held.images, whole)


@needs_gpu
@pytest.mark.parametrize("held", [True, False])
def test_on_a_gpu(held: bool) -> None:
    device = torch.device("cuda")
    check(on_device(given(), device) if held else given(), device)


def test_memory_for_a_batch_is_the_callers() -> None:
    source, made = given(), []

    def allocate(shape: tuple[int, ...]) -> np.ndarray:
        made.append(np.zeros(shape, np.uint8))
        return made[-1]

    found = list(source.images.stream([np.array([1, 2]), np.array([3])], allocate))
    assert [id(images) for images in found] == [id(memory) for memory in made]


@pytest.mark.parametrize("row", [-1, 40])
def test_a_row_that_there_is_not(row: int) -> None:
    with pytest.raises(IndexError, match=f"no row {row}; there are 40"):
        list(given().images.stream([np.array([0, row])]))
