"""ROLE against its formula, evaluated once more label by label in float64."""

from math import log

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mlml.methods.role import Role
from tests.methods import observed as shared
from tests.methods.observed import MIXED, observed_labels, whole


def build(observed: np.ndarray, prior: float | None = 1.5, **options: object) -> Role:
    method = shared.build("role", observed, prior, **options)
    assert isinstance(method, Role)
    return method


def oracle(f: np.ndarray, g: np.ndarray, observed: np.ndarray, k: float) -> float:
    """1/2 (pos(f) + pos(g)) + 1/2 (CE(f; g) + CE(g; f)) + 1/2 (reg(f) + reg(g)); f and g are probabilities."""
    n, width = observed.shape
    total = 0.0
    for own, other in ((f, g), (g, f)):
        for place in np.ndindex(observed.shape):
            p, q, y = own[place], other[place], observed[place]
            total += (-log(p) if y == 1 else -log(1 - p) if y == -1 else 0) / (n * width)
            total += -(q * log(p) + (1 - q) * log(1 - p)) / (n * width)
        total += ((sum(own[i].sum() for i in range(n)) / n - k) / width) ** 2
    return total / 2


@given(observed_labels(5, 6), st.integers(0, 2**31), st.floats(0.1, 5))
def test_loss_equals_the_formula(observed: np.ndarray, seed: int, k: float) -> None:
    random, k = np.random.RandomState(seed), min(k, observed.shape[1])
    x, g = 2 * random.randn(*observed.shape), 2 * random.randn(*observed.shape)
    method = build(observed, k=k).double()
    method.g.data.copy_(torch.from_numpy(g))
    loss = method(torch.from_numpy(x), whole(observed), 1)
    expected = oracle(1 / (1 + np.exp(-x)), 1 / (1 + np.exp(-g)), observed, k)
    assert loss.item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


def gradients(observed: np.ndarray, x: Tensor, g: Tensor, k: float) -> tuple[Tensor, ...]:
    method = build(observed, k=k).double()
    method.g.data.copy_(g)
    x = x.clone().requires_grad_()
    loss = method(x, whole(observed), 1)
    return torch.autograd.grad(loss, [x, method.g])


def test_gradient_takes_the_other_as_a_constant() -> None:
    random, k, size = np.random.RandomState(0), 1.4, MIXED.size
    x, g = random.randn(*MIXED.shape), random.randn(*MIXED.shape)
    f, e = 1 / (1 + np.exp(-x)), 1 / (1 + np.exp(-g))
    found = gradients(MIXED, torch.from_numpy(x), torch.from_numpy(g), k)
    for own, other, gradient in zip((f, e), (e, f), found, strict=True):
        expected = np.where(MIXED == 1, own - 1, np.where(MIXED == -1, own, 0)) / size + (own - other) / size
        expected += 2 * (own.sum(1).mean() - k) / 4**2 / 5 * own * (1 - own)
        np.testing.assert_allclose(gradient.numpy(), expected / 2, rtol=1e-9)


def test_initial_estimate() -> None:
    observed = np.tile(MIXED, (50, 1))
    start = build(observed).pseudo_labels(torch.arange(250))
    g = build(observed).g.sigmoid()
    assert torch.allclose(g[torch.from_numpy(observed == 1)], torch.tensor(0.995))
    assert torch.allclose(g[torch.from_numpy(observed == -1)], torch.tensor(0.005))
    unknown = g[torch.from_numpy(observed == 0)]
    assert 0.4 <= unknown.min() < 0.41 and 0.59 < unknown.max() <= 0.6
    assert torch.equal(start[torch.from_numpy(observed == 0)], unknown)


@pytest.mark.parametrize(
    ("observed", "k", "prior", "expected"),
    [
        (MIXED, 3.0, 1.5, 3.0),  # as given
        (MIXED, None, 1.5, 1.5),  # the data set's
        (np.array([[1, 0, 0, 0, -1, 0], [1, -1, -1, -1, 0, 0]], np.int8), None, None, 2.0),  # estimated: 1 / (1/2)
    ],
)
def test_k(observed: np.ndarray, k: float | None, prior: float | None, expected: float) -> None:
    assert build(observed, prior, k=k).k == pytest.approx(expected)


def test_more_positives_than_classes() -> None:
    with pytest.raises(ValueError, match=r"^methods\.role: k: 5 is not allowed; there are 4 classes$"):
        build(MIXED, k=5.0)


def test_without_a_number_of_positives_it_says_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"^methods\.role: k: null is not allowed here; .* set k or train\.prior$"):
        build(np.array([[1, 0], [0, 1]], np.int8), None)


def test_its_own_learning_rate() -> None:
    assert build(MIXED).lr_scale == 10
    assert build(MIXED, lr_scale=3.0).lr_scale == 3
