import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlml.datasets.split import validation_split


@given(st.integers(0, 3000))
def test_partition(n: int) -> None:
    train, validation = validation_split(n)
    assert len(validation) == round(0.2 * n)
    assert np.array_equal(np.sort(np.concatenate([train, validation])), np.arange(n))
    for part in (train, validation):
        assert part.dtype == np.int64
        assert (np.diff(part) > 0).all()


@pytest.mark.parametrize(("n", "train", "validation"), [(5717, 4574, 1143), (82081, 65665, 16416)])
def test_published_sizes(n: int, train: int, validation: int) -> None:
    parts = validation_split(n)
    assert (len(parts[0]), len(parts[1])) == (train, validation)


def test_published_draw() -> None:
    """The last fifth of RandomState(1200)'s permutation."""
    order = np.random.RandomState(1200).permutation(100).tolist()
    assert validation_split(100)[1].tolist() == sorted(order[80:])
