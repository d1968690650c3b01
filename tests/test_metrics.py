import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import average_precision_score

from mlml.metrics import average_precision, mean_average_precision

shapes = hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=40)


def oracle(truth: np.ndarray, scores: np.ndarray) -> list[float]:
    # In float64, or scikit-learn's own differences of float16 scores overflow.
    scores = scores.astype(np.float64)
    return [average_precision_score(truth[:, j], scores[:, j]) for j in range(truth.shape[1])]


@given(
    st.data(),
    shapes,
    st.sampled_from([np.float16, np.float32, np.float64]),
    st.sampled_from(
        [st.integers(-3, 3), st.floats(-(2.0**99), 2.0**99, width=32), st.sampled_from([0.0, -0.0, 1e-45, -1e-45])]
    ),
)
def test_equals_scikit_learn_with_ties(
    data: st.DataObject, shape: tuple[int, int], dtype: type, values: st.SearchStrategy
) -> None:
    truth = data.draw(hnp.arrays(bool, shape))
    truth[data.draw(st.integers(0, shape[0] - 1))] = True  # each class has a positive
    with np.errstate(over="ignore"):
        scores = np.clip(data.draw(hnp.arrays(np.float64, shape, elements=values)).astype(dtype), -6e4, 6e4)
    np.testing.assert_allclose(average_precision(truth, scores), oracle(truth, scores), rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        mean_average_precision(truth, scores), np.mean(oracle(truth, scores)), rtol=0, atol=1e-12
    )


@given(st.data(), shapes, st.sampled_from([np.float16, np.float32, np.float64]))
def test_unknown_labels_count_in_no_class(data: st.DataObject, shape: tuple[int, int], dtype: type) -> None:
    truth, known = data.draw(hnp.arrays(bool, shape)), data.draw(hnp.arrays(bool, shape))
    row = data.draw(st.integers(0, shape[0] - 1))
    truth[row] = known[row] = True  # each class has a positive that is known
    values = st.integers(-3, 3) | st.sampled_from([-np.inf, np.inf])  # not even the lowest score ties with an unknown
    scores = data.draw(hnp.arrays(dtype, shape, elements=values))
    ranks = np.where(np.isinf(scores), np.sign(scores) * 9, scores)  # scikit-learn takes no infinite ones
    expected = [average_precision_score(truth[k, j], ranks[k, j]) for j, k in enumerate(known.T)]
    np.testing.assert_allclose(average_precision(truth & known, scores, known), expected, rtol=0, atol=1e-12)
    assert mean_average_precision(truth & known, scores, known) == pytest.approx(np.mean(expected))


@pytest.mark.parametrize("decimals", [1, 2, 8])
def test_equals_scikit_learn_at_size(decimals: int) -> None:
    random = np.random.RandomState(0)
    truth = random.rand(4000, 20) < 0.05
    scores = np.round(random.randn(4000, 20) + truth, decimals).astype(np.float32)
    np.testing.assert_allclose(average_precision(truth, scores), oracle(truth, scores), rtol=0, atol=1e-12)


def test_by_hand() -> None:
    truth = np.array([[True], [False], [True], [False]])
    scores = np.array([[0.9], [0.8], [0.7], [0.1]], np.float32)
    assert average_precision(truth, scores)[0] == pytest.approx((1 + 2 / 3) / 2)


def test_infinite_scores_are_ordered() -> None:
    truth = np.array([[True], [False], [False]])
    scores = np.array([[np.inf], [0], [-np.inf]], np.float32)
    assert average_precision(truth, scores)[0] == 1


def test_class_without_positives_is_not_defined_and_left_out() -> None:
    truth = np.array([[True, False], [False, False]])
    scores = np.array([[1, 1], [0, 0]], np.float32)
    per_class = average_precision(truth, scores)
    assert per_class[0] == 1
    assert np.isnan(per_class[1])
    assert mean_average_precision(truth, scores) == 1
    with pytest.raises(ValueError, match="no class has a positive"):
        mean_average_precision(truth[:, 1:], scores[:, 1:])


@pytest.mark.parametrize(
    ("truth", "scores", "message"),
    [
        (np.ones((2, 2), bool), np.full((2, 2), np.nan, np.float32), "4 of the scores are NaN"),
        (np.ones((2, 2), np.int8), np.ones((2, 2), np.float32), "truth must be bool"),
        (np.ones((2, 2), bool), np.ones((2, 3), np.float32), "truth must be bool"),
    ],
)
def test_wrong_input(truth: np.ndarray, scores: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        average_precision(truth, scores)


@pytest.mark.parametrize("known", [np.ones((2, 3), bool), np.ones((2, 2), np.int8)])
def test_wrong_mask(known: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"known must be bool \[2, 2\]"):
        average_precision(np.ones((2, 2), bool), np.ones((2, 2), np.float32), known)
