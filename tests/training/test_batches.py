"""The batches of an epoch."""

import pytest
import torch

from mlml.training.batches import draw, flip, smallest

CPU = torch.device("cpu")


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("n", "size", "sizes"), [(37, 8, {7, 8}), (33, 16, {11}), (17, 16, {8, 9}), (5, 16, {5})])
def test_all_rows_once_in_batches_of_almost_equal_size(n: int, size: int, sizes: set[int]) -> None:
    steps = draw(n, size, True, random(), CPU)
    assert {len(step.rows) for step in steps} == sizes
    assert len(steps) == -(-n // size)
    assert smallest(n, size) == min(sizes)
    assert sorted(torch.cat([step.rows for step in steps]).tolist()) == list(range(n))
    for step in steps:
        assert torch.equal(step.index, step.rows)
        assert step.flipped.shape == step.rows.shape


def test_another_order_and_other_flips_in_each_epoch_the_same_from_the_same_seed() -> None:
    first = random()
    epochs = [draw(40, 8, True, generator, CPU) for generator in (first, first, random())]
    order, flipped = ([torch.cat([step[i] for step in steps]).tolist() for steps in epochs] for i in (0, 2))
    assert order[0] == order[2] != order[1]
    assert flipped[0] == flipped[2] != flipped[1]


def test_half_of_the_images_is_flipped_or_none() -> None:
    flipped = torch.cat([step.flipped for step in draw(4000, 16, True, random(), CPU)])
    assert 1800 < flipped.sum() < 2200
    assert all(step.flipped is None for step in draw(40, 16, False, random(), CPU))


def test_flipped_is_left_to_right() -> None:
    images = torch.arange(2 * 4 * 5 * 3, dtype=torch.int32).reshape(2, 4, 5, 3)
    first, second = flip(images, torch.tensor([True, False]))
    assert torch.equal(first, torch.stack([images[0, :, 4 - column] for column in range(5)], dim=1))
    assert torch.equal(second, images[1])
