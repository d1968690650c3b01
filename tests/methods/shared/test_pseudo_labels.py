"""The paper's method against the formulas, evaluated once more image by image in float64."""

from math import exp, log

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mlml.methods.shared import pseudo_labels as pl
from tests.methods import observed as shared
from tests.methods.observed import observed_labels, whole

labels = observed_labels(6, 7, 2)


def build(observed: np.ndarray, prior: float | None = None, **options: object) -> pl.PseudoLabel:
    method = shared.build("pseudo_label", observed, prior, **options)
    assert isinstance(method, pl.PseudoLabel)
    return method


def oracle_initial(observed: np.ndarray, prior: float | None) -> np.ndarray:
    """Equation `intipse` by hand; K from the prior where the observed labels are no sample of all."""
    n, width = observed.shape
    positives = sum(int(v == 1) for v in observed.flat)
    negatives = sum(int(v == -1) for v in observed.flat)
    if negatives >= max(positives, 1) or (observed != 0).all():
        expected = max(positives / n / ((positives + negatives) / (n * width)), 1)
    else:
        expected = max(prior if prior is not None else positives / n, 1)
    result = np.zeros(observed.shape)
    for i, row in enumerate(observed):
        own, unknown = (row == 1).sum(), (row == 0).sum()
        for j, value in enumerate(row):
            if value == 0:
                result[i, j] = min((expected - own) / unknown, 1) if expected > own else 0
            else:
                result[i, j] = value == 1
    return result


@given(labels, st.none() | st.floats(0.1, 5))
def test_initial_pseudo_labels(observed: np.ndarray, prior: float | None) -> None:
    if not observed.any():
        observed[0, 0] = 1
    method = build(observed, prior)
    np.testing.assert_allclose(method.pseudo.numpy(), oracle_initial(observed, prior), rtol=0, atol=1e-6)


def test_initial_values_by_hand() -> None:
    pol = np.array([[1, 0, 0, 0, -1, 0], [1, -1, -1, -1, 0, 0]], np.int8)
    # P_p = 1, m = 6/12: K = (2/2) / (6/12) = 2; (2 - 1)/4 and (2 - 1)/2.
    assert build(pol).pseudo[:, -1].tolist() == pytest.approx([1 / 4, 1 / 2])
    spl = np.array([[1, 0, 0, 0, 0], [0, 0, 1, 0, 0]], np.int8)
    assert build(spl, 1.8).pseudo[0, 1].item() == pytest.approx(0.2)
    assert build(spl).pseudo[0, 1].item() == 0


def oracle_loss(
    logits: np.ndarray,
    observed: np.ndarray,
    pseudo: np.ndarray,
    epoch: int,
    *,
    epochs: int = 10,
    alpha: float = 0.95,
    beta: float = 0.05,
    t: float = 0.7,
    weights: tuple[float, float] | None = None,
    weighted: bool = True,
) -> float:
    """Equations `ob`, `lcfs`, `un` and `fina` by hand."""
    positives, negatives = (observed == 1).sum(), (observed == -1).sum()
    c1, c2 = weights or (negatives / (positives + negatives), positives / (positives + negatives))

    def bounded_log(p: float) -> float:
        return log(min(max(p, 1e-4), 1 - 1e-4))

    def cfs(x: float, q: float) -> float:
        return -(c1 * x * bounded_log(q) + c2 * (1 - x) * bounded_log(1 - q))

    total = 0.0
    for i in range(len(observed)):
        seen, hidden = [], []
        for j in range(observed.shape[1]):
            p = 1 / (1 + exp(-logits[i, j]))
            if observed[i, j] == 0:
                y = 1.0 if pseudo[i, j] >= t else pseudo[i, j]
                hidden.append(alpha * cfs(y, p) + beta * cfs(p, y))
            else:
                seen.append(-log(p) if observed[i, j] == 1 else -log(1 - p))
        a, b = (1 - epoch / (2 * epochs), epoch / (2 * epochs)) if weighted else (1.0, 1.0)
        total += a * (sum(seen) / len(seen) if seen else 0) + b * (sum(hidden) / len(hidden) if hidden else 0)
    return total / len(observed)


@given(labels, st.integers(1, 10), st.integers(0, 2**31), st.booleans(), st.booleans())
def test_loss_equals_the_formula(observed: np.ndarray, epoch: int, seed: int, weighted: bool, imbalance: bool) -> None:
    if not observed.any():
        observed[0, 0] = -1
    random = np.random.RandomState(seed)
    logits = random.randn(*observed.shape) * 2
    method = build(observed, 1.5, weighted=weighted, imbalance=imbalance).double()
    pseudo = np.where(observed == 0, random.rand(*observed.shape), observed == 1)
    method.pseudo.copy_(torch.from_numpy(pseudo))
    loss = method(torch.from_numpy(logits), whole(observed), epoch)
    weights = None if imbalance else (1.0, 1.0)
    expected = oracle_loss(logits, observed, pseudo, epoch, weighted=weighted, weights=weights)
    assert loss.item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_gradient_by_hand() -> None:
    # One unknown label beside one observed positive: d/dlogit of 1/2 * alpha * C1 * y~ * -log y^ = -(1 - y^)/2 ...
    observed = np.array([[1, 0]], np.int8)
    method = build(observed, c1=1.0, c2=0.0, alpha=1.0, beta=0.0, weighted=True).double()
    method.pseudo[0, 1] = 0.4
    logits = torch.tensor([[0.3, -0.2]], dtype=torch.float64, requires_grad=True)
    method(logits, whole(observed), 10).backward()
    p, q = (1 / (1 + exp(-x)) for x in (0.3, -0.2))
    assert logits.grad[0].tolist() == pytest.approx([-0.5 * (1 - p), -0.5 * 0.4 * (1 - q)])


@pytest.mark.parametrize(
    ("mode", "expected"), [("round_up", [0.1, 0.69, 1, 1]), ("binary", [0, 0, 1, 1]), ("none", [0.1, 0.69, 0.7, 0.9])]
)
def test_threshold(mode: pl.ThresholdMode, expected: list[float]) -> None:
    y = torch.tensor([0.1, 0.69, 0.7, 0.9], dtype=torch.float64)
    assert pl.thresholded(y, 0.7, mode).tolist() == expected


def run_epochs(method: pl.PseudoLabel, planes: list[np.ndarray]) -> list[np.ndarray]:
    """y~ after each epoch."""
    states = []
    for epoch, plane in enumerate(planes, 1):
        method.end_epoch(epoch, torch.from_numpy(plane).float())
        states.append(method.pseudo.numpy().copy())
    return states


def oracle_algorithm1(
    planes: list[np.ndarray], initial: np.ndarray, uniform: list[np.ndarray], d: float = 0.2
) -> list[np.ndarray]:
    """Algorithm 1, label by label, with the random numbers of each epoch given."""
    pseudo, stack, states = initial.copy(), [], []
    for epoch, plane in enumerate(planes, 1):
        if 3 < epoch < 7:
            if len(stack) == 3:
                stack.pop(0)
            stack.append(plane)
            for place in np.ndindex(pseudo.shape):
                values = [s[place] for s in stack]
                y, r = plane[place], uniform[epoch - 1][place]
                if all(0.5 - d <= v <= 0.5 + d for v in values):
                    pseudo[place] = y - r * y if y < 0.5 else y + r * (1 - y)
                else:
                    pseudo[place] = sum(values) / len(values)
        states.append(pseudo.copy())
    return states


@given(st.integers(0, 2**31))
def test_updates_follow_algorithm_1(seed: int) -> None:
    random = np.random.RandomState(seed)
    observed = np.zeros((4, 5), np.int8)
    observed[:, 0] = [1, -1, 1, -1]
    planes = [np.clip(0.5 + 0.25 * random.randn(4, 5), 0, 1).astype(np.float32) for _ in range(10)]
    uniform = [random.rand(4, 5).astype(np.float32) for _ in range(10)]
    method = build(observed)
    initial = method.pseudo.numpy().copy()
    queue = iter(uniform[3:6])  # only the epochs inside the window draw
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "rand_like", lambda plane: torch.from_numpy(next(queue)))
        states = run_epochs(method, planes)
    for ours, expected in zip(states, oracle_algorithm1(planes, initial, uniform), strict=True):
        np.testing.assert_allclose(ours[:, 1:], expected[:, 1:], rtol=0, atol=1e-6)
        assert ours[:, 0].tolist() == [1, 0, 1, 0]  # observed labels never change


def test_window_and_running_average_by_hand() -> None:
    observed = np.array([[1, 0]], np.int8)
    method = build(observed, 1.5)
    # Decided predictions, so the detector stays out of it.
    states = run_epochs(method, [np.array([[0.5, p]]) for p in (0.9, 0.9, 0.9, 0.01, 0.02, 0.06, 0.9, 0.9)])
    values = [state[0, 1] for state in states]
    assert values == pytest.approx([0.5, 0.5, 0.5, 0.01, 0.015, 0.03, 0.03, 0.03])


@pytest.mark.parametrize("option", ["weighted", "imbalance"])
@pytest.mark.parametrize(("negatives", "sampled"), [(0, False), (1, False), (2, True), (3, True)])
def test_what_is_for_samples_of_all_labels(option: str, negatives: int, sampled: bool) -> None:
    observed = np.array([[1, 0, 0], [0, 1, 0]], np.int8)
    observed[tuple(zip(*[(0, 1), (1, 0), (1, 2)][:negatives], strict=True)) or ([], [])] = -1
    logits, batch = torch.tensor([[0.3, -1.0, 2.0], [0.1, 0.2, 0.3]]), whole(observed)
    default, same, other = (
        build(observed, 1.5, **o)(logits, batch, 1) for o in ({}, {option: sampled}, {option: not sampled})
    )
    assert default == same != other


def test_update_every_epoch_keeps_the_last_three() -> None:
    observed = np.array([[1, 0]], np.int8)
    method = build(observed, update_every_epoch=True, disturbances=False)
    states = run_epochs(method, [np.array([[0.5, p]]) for p in (0.3, 0.6, 0.9, 0.0)])
    assert [state[0, 1] for state in states] == pytest.approx([0.3, 0.45, 0.6, 0.5])


def test_without_update_asks_for_no_predictions() -> None:
    method = build(np.array([[1, 0]], np.int8), update=False)
    before = method.pseudo.clone()
    assert not method.wants_predictions
    method.end_epoch(4, None)
    assert torch.equal(method.pseudo, before)


def test_nothing_observed_is_refused() -> None:
    with pytest.raises(ValueError, match="no label of the training set is observed"):
        build(np.zeros((2, 3), np.int8))


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"start_epoch": 7}, "methods.pseudo_label: end_epoch: 7 is not allowed; no epoch e has 7 < e < 7"),
        ({"imbalance": False, "c1": 0.2}, "methods.pseudo_label: imbalance: False is not allowed with c1: it sets"),
    ],
)
def test_options_that_contradict_each_other(options: dict[str, object], line: str) -> None:
    with pytest.raises(ValueError) as caught:
        build(np.array([[1, 0]], np.int8), **options)
    assert str(caught.value).startswith(line)


def test_a_stack_is_not_larger_than_the_run() -> None:
    assert len(build(np.array([[1, 0]], np.int8), stack_size=10**9).stack) == 10
