"""The losses without state against their formulas, evaluated once more label by label in float64; special cases."""

from collections.abc import Callable
from math import ceil, exp, log

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.methods.observed import MIXED, build, observed_labels, whole

Labels = np.ndarray

PerLabel = Callable[[float, int], float]  # the loss of a label by its probability and its observed value

labels = observed_labels(5, 6)
seeds = st.integers(0, 2**31)
weights = st.floats(0, 3)


def logits_for(observed: Labels, seed: int = 0) -> Tensor:
    return torch.from_numpy(2 * np.random.RandomState(seed).randn(*observed.shape))


def loss_of(name: str, observed: Labels, x: Tensor, epoch: int = 1, **options: object) -> Tensor:
    return build(name, observed, **options)(x, whole(observed), epoch)


def gradient_of(name: str, observed: Labels, x: Tensor, epoch: int = 1, **options: object) -> np.ndarray:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(loss_of(name, observed, x, epoch, **options), x)[0].numpy()


def sigmoid(x: float) -> float:
    return 1 / (1 + exp(-x))


def per_label(loss: PerLabel, x: Tensor, observed: Labels) -> np.ndarray:
    result = np.zeros(observed.shape)
    for place in np.ndindex(observed.shape):
        result[place] = loss(sigmoid(x[place].item()), observed[place])
    return result


def own(p: float, y: int) -> float:
    """Cross entropy, unknown as absent."""
    return -log(p) if y == 1 else -log(1 - p)


def equal(result: Tensor, expected: float) -> None:
    assert result.dtype == torch.float64
    assert result.item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@given(labels, seeds)
def test_an(observed: Labels, seed: int) -> None:
    x = logits_for(observed, seed)
    equal(loss_of("an", observed, x), per_label(own, x, observed).mean())


@given(labels, seeds, st.none() | weights)
def test_wan(observed: Labels, seed: int, weight: float | None) -> None:
    x, n = logits_for(observed, seed), observed.shape[1]
    w = weight if weight is not None else 1 / (n - 1) if n > 1 else 1
    expected = per_label(lambda p, y: own(p, y) * (w if y == 0 else 1), x, observed).mean()
    equal(loss_of("wan", observed, x, weight=weight), expected)


def mean_over_images_of_mean_over_observed(values: np.ndarray, observed: Labels) -> float:
    rows = [row[seen].mean() if seen.any() else 0 for row, seen in zip(values, observed != 0, strict=True)]
    return float(np.mean(rows))


@given(labels, seeds)
def test_bce(observed: Labels, seed: int) -> None:
    x = logits_for(observed, seed)
    expected = mean_over_images_of_mean_over_observed(per_label(own, x, observed), observed)
    equal(loss_of("bce", observed, x), expected)


@given(labels, seeds, st.floats(0, 0.99))
def test_bce_ls(observed: Labels, seed: int, s: float) -> None:
    x = logits_for(observed, seed)
    values = per_label(lambda p, y: (1 - s) * own(p, y) + s * own(p, -1 if y == 1 else 1), x, observed)
    expected = mean_over_images_of_mean_over_observed(values, observed)
    equal(loss_of("bce_ls", observed, x, smoothing=s), expected)


@given(labels, seeds, st.floats(-6, 0), st.floats(6, 8), st.floats(0.1, 3))
def test_partial_bce(observed: Labels, seed: int, alpha: float, beta: float, gamma: float) -> None:
    x, total = logits_for(observed, seed), 0.0
    values = per_label(own, x, observed)
    for i, row in enumerate(observed):
        seen = [j for j, value in enumerate(row) if value != 0]
        total += (alpha * (len(seen) / len(row)) ** gamma + beta) / len(row) * sum(values[i, j] for j in seen)
    result = loss_of("partial_bce", observed, x, alpha=alpha, beta=beta, gamma=gamma)
    equal(result, total / len(observed))


@given(labels, seeds, weights, weights, st.floats(0, 9))
def test_focal(observed: Labels, seed: int, alpha_pos: float, alpha_neg: float, gamma: float) -> None:
    def loss(p: float, y: int) -> float:
        return -alpha_pos * (1 - p) ** gamma * log(p) if y == 1 else -alpha_neg * p**gamma * log(1 - p)

    x = logits_for(observed, seed)
    result = loss_of("focal", observed, x, alpha_pos=alpha_pos, alpha_neg=alpha_neg, gamma=gamma)
    equal(result, per_label(loss, x, observed).sum(1).mean())


@given(labels, seeds, st.floats(0, 9), st.floats(0, 9), st.floats(0, 0.9))
def test_asl(observed: Labels, seed: int, gamma_pos: float, gamma_neg: float, m: float) -> None:
    def loss(p: float, y: int) -> float:
        q = max(p - m, 0)
        return -((1 - p) ** gamma_pos) * log(p) if y == 1 else -(q**gamma_neg) * log(1 - q)

    x = logits_for(observed, seed)
    result = loss_of("asl", observed, x, gamma_pos=gamma_pos, gamma_neg=gamma_neg, margin=m)
    equal(result, per_label(loss, x, observed).sum(1).mean())


def with_margin(p: float, margin: float) -> float:
    return sigmoid(log(p / (1 - p)) - margin)


@given(labels, seeds, weights, weights, st.floats(0, 4))
def test_hill(observed: Labels, seed: int, lam: float, margin: float, gamma: float) -> None:
    def loss(p: float, y: int) -> float:
        if y == 0:
            return (lam - p) * p * p
        q = with_margin(p, margin)
        return -((1 - q) ** gamma) * log(q) if y == 1 else -(p**gamma) * log(1 - p)

    x = logits_for(observed, seed)
    equal(loss_of("hill", observed, x, lam=lam, margin=margin, gamma=gamma), per_label(loss, x, observed).mean())


@given(labels, seeds, st.floats(0.1, 1.1), st.integers(1, 4), st.integers(1, 4), weights, st.floats(0, 4))
def test_splc(
    observed: Labels, seed: int, threshold: float, start_epoch: int, epoch: int, margin: float, gamma: float
) -> None:
    def loss(p: float, y: int) -> float:
        q = 1 - p
        if y == 1:
            q = with_margin(p, margin)
        elif y == 0 and epoch >= start_epoch and p > threshold:
            q = p
        return -((1 - q) ** gamma) * log(q)

    x = logits_for(observed, seed)
    options = {"threshold": threshold, "start_epoch": start_epoch, "margin": margin, "gamma": gamma}
    equal(loss_of("splc", observed, x, epoch, **options), per_label(loss, x, observed).mean())


def oracle_gr(observed: Labels, epoch: int, epochs: int, q2: float, q3: float) -> PerLabel:
    """The source's schedule with the source's values."""
    w, b = 0 + (2 - 0) * (epoch - 1) / epochs, -2.0
    mu, sigma = 0.5 + (0.8 - 0.5) * epoch / epochs, 2 + (0.5 - 2) * epoch / epochs

    def loss(p: float, y: int) -> float:
        if y != 0:
            return own(p, y)
        k, v = 1 / (1 + exp(-(w * p + b))), exp(-0.5 * ((p - mu) / sigma) ** 2)
        present = (1 - p**q2) / q2 if q2 else -log(p)
        absent = (1 - (1 - p) ** q3) / q3 if q3 else -log(1 - p)
        return v * (k * present + (1 - k) * absent)

    return loss


exponents = st.just(0.0) | st.floats(0.001, 1)
larger = st.just(0.0) | st.floats(0.001, 3)  # CUB has 1.5


@given(labels, seeds, st.integers(1, 10), exponents, larger)
def test_gr(observed: Labels, seed: int, epoch: int, q2: float, q3: float) -> None:
    x = logits_for(observed, seed)
    for epochs in (8, 10):
        loss = oracle_gr(observed, epoch, epochs, q2, q3)
        result = loss_of("gr", observed, x, epoch, epochs=epochs, q2=q2, q3=q3)
        equal(result, per_label(loss, x, observed).mean())


def test_gr_takes_the_score_in_k_and_v_as_a_constant() -> None:
    x, epoch, n = logits_for(MIXED), 7, MIXED.size
    w, b, mu, sigma = 2 * 6 / 10, -2, 0.5 + 0.3 * 0.7, 2 - 1.5 * 0.7
    expected = np.zeros(MIXED.shape)
    for place in np.ndindex(MIXED.shape):
        p, y = sigmoid(x[place].item()), MIXED[place]
        k, v = sigmoid(w * p + b), exp(-(((p - mu) / sigma) ** 2) / 2)
        # d/dp (1 - p^q)/q = -p^(q - 1); dp/dx = p (1 - p)
        unknown = v * (k * -(p ** (0.01 - 1)) + (1 - k)) * p * (1 - p)
        expected[place] = {1: p - 1, -1: p, 0: unknown}[y] / n
    np.testing.assert_allclose(gradient_of("gr", MIXED, x, epoch), expected, rtol=1e-9)


def large(values: np.ndarray, observed: Labels, share: float) -> set[tuple[int, ...]]:
    """The places of the k largest losses among the unknown labels."""
    k = ceil(round(share * observed.size, 6))
    unknown = [place for place in np.ndindex(observed.shape) if observed[place] == 0]
    return set(sorted(unknown, key=lambda place: -values[place])[:k])


shares = st.floats(0, 1) | st.just(0.002)


@given(labels, seeds, st.integers(1, 10), shares)
def test_ll_r_and_ll_ct(observed: Labels, seed: int, epoch: int, delta: float) -> None:
    x = logits_for(observed, seed)
    values = per_label(own, x, observed)
    rejected, corrected = values.copy(), values.copy()
    for place in large(values, observed, delta * (epoch - 1)):
        rejected[place], corrected[place] = 0, -log(sigmoid(x[place].item()))
    equal(loss_of("ll_r", observed, x, epoch, delta=delta), rejected.mean())
    equal(loss_of("ll_ct", observed, x, epoch, delta=delta), corrected.mean())


@given(labels, seeds, shares)
def test_ll_cp(observed: Labels, seed: int, delta: float) -> None:
    method, now, batch = build("ll_cp", observed, delta=delta), observed.copy(), whole(observed)
    for epoch in range(1, 5):
        x = logits_for(observed, (seed + epoch) % 2**32)
        if epoch > 1:
            for place in large(per_label(own, x, now), now, delta):
                now[place] = 1
        equal(method(x, batch, epoch), per_label(own, x, now).mean())
        assert torch.equal(method.pseudo_labels(batch.index), torch.from_numpy(now == 1).float())


def test_reductions_to_assume_negative() -> None:
    x = logits_for(MIXED)
    an, classes = gradient_of("an", MIXED, x), MIXED.shape[1]
    for name, scale, options in (
        ("wan", 1, {"weight": 1.0}),
        ("focal", classes, {"gamma": 0.0, "alpha_pos": 1.0, "alpha_neg": 1.0}),
        ("focal", 0.5 * classes, {"gamma": 0.0, "alpha_pos": 0.5, "alpha_neg": 0.5}),
        ("asl", classes, {"gamma_pos": 0.0, "gamma_neg": 0.0, "margin": 0.0}),
        ("splc", 1, {"threshold": 1.0, "margin": 0.0, "gamma": 0.0}),
        ("ll_r", 1, {"delta": 0.0}),
        ("ll_ct", 1, {"delta": 0.0}),
        ("ll_cp", 1, {"delta": 0.0}),
        ("gr", 1, {"q3": 0.0, "b_start": -1e3, "b_end": -1e3, "sigma_start": 1e9, "sigma_end": 1e9}),
    ):
        np.testing.assert_allclose(gradient_of(name, MIXED, x, 5, **options), scale * an, rtol=1e-9, err_msg=name)
        loss = loss_of(name, MIXED, x, 5, **options).item()
        assert loss == pytest.approx(scale * loss_of("an", MIXED, x).item(), rel=1e-9), name


@pytest.mark.parametrize("size", [1e4, -1e4, 100.0, -100.0, 0.0])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("asl", {"gamma_neg": 0.01, "gamma_pos": 0.01, "margin": 0.0}),
        ("asl", {"gamma_neg": 0.5, "gamma_pos": 0.0, "margin": 0.5}),
        ("focal", {"gamma": 0.01}),
        ("hill", {"gamma": 0.01}),
        ("splc", {"gamma": 0.01}),
        ("gr", {"q2": 1e-6, "q3": 1e-6}),
        ("gr", {"q2": 0.0, "q3": 0.0}),
        ("gr", {"sigma_start": 1e-6, "sigma_end": 1e-6}),
        ("bce_ls", {"smoothing": 0.99}),
        ("partial_bce", {"gamma": 0.01}),
        ("pseudo_label", {}),
    ],
)
def test_extreme_logits_with_extreme_options(name: str, options: dict[str, object], size: float) -> None:
    x = torch.full(MIXED.shape, size, requires_grad=True)
    loss = loss_of(name, MIXED, x, 2, **options)
    loss.backward()
    assert loss.isfinite()
    assert x.grad.isfinite().all()
