"""Entropy maximisation and soft negatives against the formulas, evaluated once more label by label in float64."""

from math import exp, log

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mlml.methods.em_apl import EntropyPseudoLabels
from tests.methods import observed as shared
from tests.methods.observed import observed_labels, whole


def build(observed: np.ndarray, epochs: int = 10, **options: object) -> EntropyPseudoLabels:
    method = shared.build("em_apl", observed, None, epochs, **options)
    assert isinstance(method, EntropyPseudoLabels)
    return method


def oracle_loss(
    x: np.ndarray, observed: np.ndarray, soft: dict[tuple[int, ...], float], alpha: float, beta: float
) -> float:
    total = 0.0
    for place in np.ndindex(observed.shape):
        p = 1 / (1 + exp(-x[place]))
        if observed[place] != 0:
            total -= log(p) if observed[place] == 1 else log(1 - p)
        elif place in soft:
            s = soft[place]
            total -= beta * (s * log(p) + (1 - s) * log(1 - p))
        else:
            total += alpha * (p * log(p) + (1 - p) * log(1 - p))
    return total / observed.size


@given(
    observed_labels(9, 4), st.integers(0, 2**31), st.integers(1, 8), st.floats(0, 1), st.floats(0, 2), st.floats(0, 2)
)
def test_ten_epochs(observed: np.ndarray, seed: int, warmup: int, share: float, alpha: float, beta: float) -> None:
    random = np.random.RandomState(seed)
    method = build(observed, warmup=warmup, share=share, alpha=alpha, beta=beta).double()
    soft: dict[tuple[int, ...], float] = {}
    for epoch in range(1, 11):
        x = 2 * random.randn(*observed.shape)
        loss = method(torch.from_numpy(x), whole(observed), epoch).item()
        assert loss == pytest.approx(oracle_loss(x, observed, soft, alpha, beta), rel=1e-9, abs=1e-12)
        scores = random.rand(*observed.shape)
        method.end_epoch(epoch, torch.from_numpy(scores))
        for j in range(observed.shape[1]):
            unknown = [i for i in range(len(observed)) if observed[i, j] == 0]
            quota = int(share * len(unknown) / (10 - warmup) + 1e-9)
            free = sorted((i for i in unknown if (i, j) not in soft), key=lambda i: scores[i, j])
            if epoch >= warmup:
                soft |= {(i, j): scores[i, j] for i in free[:quota]}


def test_soft_negatives_by_hand() -> None:
    """10 unknown labels of one class, 10 epochs: floor(0.9 * 10 / 5) = 1 after each of the epochs 5 to 9."""
    observed = np.array([[1], *[[0]] * 10], np.int8)
    method = build(observed)
    plane = torch.linspace(1, 0, 11)[:, None]
    chosen = []
    for epoch in range(1, 10):
        method.end_epoch(epoch, plane)
        chosen.append(torch.nonzero(method.soft[:, 0])[:, 0].tolist())
    assert chosen == [[]] * 4 + [[10], [9, 10], [8, 9, 10], [7, 8, 9, 10], [6, 7, 8, 9, 10]]
    assert torch.equal(method.score[6:], plane[6:])
    method.end_epoch(10, torch.zeros(11, 1))
    assert torch.equal(method.score[6:], plane[6:])  # for good


def test_the_number_does_not_suffer_from_binary_fractions() -> None:
    assert int(0.57 * 100) == 56
    assert build(np.zeros((100, 1), np.int8), epochs=6, share=0.57).quota.tolist() == [57]


@pytest.mark.parametrize("epochs", [1, 5])
def test_a_run_that_ends_with_the_warmup_has_no_soft_negative_in_its_loss(epochs: int) -> None:
    observed = np.array([[1, 0, 0], [0, 0, 1]], np.int8)
    method, x = build(observed, epochs=epochs), torch.zeros(2, 3, dtype=torch.float64)
    first = method(x, whole(observed), 1)
    for epoch in range(1, epochs):
        method.end_epoch(epoch, torch.zeros(2, 3))
    assert torch.equal(method(x, whole(observed), epochs), first)


def test_equal_scores_are_taken_in_the_order_of_the_images() -> None:
    method = build(np.zeros((10, 1), np.int8), epochs=6, share=0.3)
    method.end_epoch(5, torch.full((10, 1), 0.5))
    assert torch.nonzero(method.soft[:, 0])[:, 0].tolist() == [0, 1, 2]
