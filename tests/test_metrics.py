from collections.abc import Callable

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
    return [class_oracle(truth[:, j], scores[:, j]) for j in range(truth.shape[1])]


def class_oracle(truth: np.ndarray, scores: np.ndarray) -> float:
    """scikit-learn's value, where any scores would not do: there are positives and negatives."""
    return average_precision_score(truth, scores) if truth.any() and not truth.all() else np.nan


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
    expected = np.array(oracle(truth, scores))
    np.testing.assert_allclose(average_precision(truth, scores), expected, rtol=0, atol=1e-12)
    if not np.isnan(expected).all():
        assert mean_average_precision(truth, scores) == pytest.approx(np.nanmean(expected), rel=0, abs=1e-12)


@given(st.data(), shapes, st.sampled_from([np.float16, np.float32, np.float64]))
def test_unknown_labels_count_in_no_class(data: st.DataObject, shape: tuple[int, int], dtype: type) -> None:
    truth, known = data.draw(hnp.arrays(bool, shape)), data.draw(hnp.arrays(bool, shape))
    row = data.draw(st.integers(0, shape[0] - 1))
    truth[row] = known[row] = True  # each class has a positive that is known
    values = st.integers(-3, 3) | st.sampled_from([-np.inf, np.inf])  # not even the lowest score ties with an unknown
    scores = data.draw(hnp.arrays(dtype, shape, elements=values))
    ranks = np.where(np.isinf(scores), np.sign(scores) * 9, scores)  # scikit-learn takes no infinite ones
    expected = [class_oracle(truth[k, j], ranks[k, j]) for j, k in enumerate(known.T)]
    np.testing.assert_allclose(average_precision(truth & known, scores, known), expected, rtol=0, atol=1e-12)
    if not np.isnan(expected).all():
        assert mean_average_precision(truth & known, scores, known) == pytest.approx(np.nanmean(expected))


def definition(truth: np.ndarray, scores: np.ndarray) -> float:
    """AP of a class: each positive contributes the precision among all images that score at least as high."""
    if truth.all():
        return np.nan  # any scores give 1
    # From the lowest positive to the highest: the order of a sum changes its last bits, so both must have the same.
    at_least = scores >= np.sort(scores[truth])[:, None]
    return float(np.mean(at_least[:, truth].sum(1) / at_least.sum(1)))


@given(st.data(), shapes, st.sampled_from([np.float16, np.float32, np.float64]), st.sampled_from("CF"))
def test_is_as_defined_for_all_floats(data: st.DataObject, shape: tuple[int, int], dtype: type, order: str) -> None:
    truth = data.draw(hnp.arrays(bool, shape))
    truth[data.draw(st.integers(0, shape[0] - 1))] = True
    # The largest, the smallest and infinities together with neighbours of 1, that differ in the last bit.
    close = st.sampled_from([np.nextafter(dtype(1), dtype(0)), dtype(1), np.nextafter(dtype(1), dtype(2))])
    elements = hnp.from_dtype(np.dtype(dtype), allow_nan=False) | close
    scores = np.asarray(data.draw(hnp.arrays(dtype, shape, elements=elements)), order=order)
    before = scores.copy()
    expected = [definition(*each) for each in zip(truth.T, scores.T, strict=True)]
    np.testing.assert_allclose(average_precision(truth, scores), expected, rtol=0, atol=4e-16)
    np.testing.assert_array_equal(scores, before)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    "spread",
    [
        lambda random: 1 / (1 + np.exp(-20 * random.randn(1500))),  # saturated probabilities
        lambda random: np.append(random.randn(1499) / 100, 6e4),  # all but one are next to each other
        lambda random: np.where(random.rand(1500) < 0.1, np.inf, random.randn(1500)),
        lambda random: random.randint(-9, 9, 1500) * 6e-8,  # float16: numbers below the least normal one
        lambda random: np.linspace(-6e4, 6e4, 1500),
        lambda random: np.full(1500, -np.inf),
        lambda random: np.full(1500, 3.0),
    ],
)
def test_is_as_defined_however_scores_are_spread(
    dtype: type, spread: Callable[[np.random.RandomState], np.ndarray]
) -> None:
    random = np.random.RandomState(0)
    scores, truth, known = spread(random).astype(dtype), random.rand(1500) < 0.1, random.rand(1500) < 0.5
    measured = average_precision(truth[:, None], scores[:, None], known[:, None])
    np.testing.assert_allclose(measured, definition(truth[known], scores[known]), rtol=0, atol=4e-16)
    np.testing.assert_allclose(
        average_precision(truth[:, None], scores[:, None]), definition(truth, scores), rtol=0, atol=4e-16
    )


@pytest.mark.parametrize("highest", [0.1, 1, 7, 1e3, 3e38])
def test_more_images_than_buckets(highest: float) -> None:
    random = np.random.RandomState(0)
    scores = np.linspace(-highest / 3, highest, 150_000).astype(np.float32)
    truth = random.rand(len(scores)) < 0.001
    truth[-1] = True  # the highest score
    expected = average_precision_score(truth, scores.astype(np.float64))
    np.testing.assert_allclose(average_precision(truth[:, None], scores[:, None]), expected, rtol=0, atol=4e-16)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_no_images_or_no_classes(shape: tuple[int, int]) -> None:
    result = average_precision(np.zeros(shape, bool), np.zeros(shape, np.float32), np.zeros(shape, bool))
    assert result.dtype == np.float64
    np.testing.assert_array_equal(result, np.full(shape[1], np.nan))


@pytest.mark.parametrize("value", [True, False])
def test_a_class_with_known_labels_of_one_kind_is_not_defined(value: bool) -> None:
    truth, known = np.array([[value], [not value]]), np.array([[True], [False]])
    assert np.isnan(average_precision(truth, np.ones((2, 1), np.float32), known)).all()


def test_a_class_with_one_kind_of_labels_is_left_out() -> None:
    truth = np.array([[True, False, True], [False, False, True]])
    scores = np.array([[0, 1, 1], [1, 0, 0]], np.float32)
    np.testing.assert_array_equal(average_precision(truth, scores), [0.5, np.nan, np.nan])
    assert mean_average_precision(truth, scores) == 0.5
    with pytest.raises(ValueError, match="no class has a positive and a negative"):
        mean_average_precision(truth[:, 1:], scores[:, 1:])


ONES, NAN = np.ones((2, 2), bool), np.array([[0.5, np.nan]] * 2, np.float32)


@pytest.mark.parametrize(
    ("truth", "scores", "known", "message"),
    [
        (ONES, NAN, None, "2 of the scores are NaN"),
        (ONES, NAN, np.array([[True, False]] * 2), "2 of the scores are NaN"),  # of unknown labels, too
        (np.ones((2, 2), np.int8), np.ones((2, 2), np.float32), None, "truth must be bool"),
        (ONES, np.ones((2, 3), np.float32), None, "truth must be bool"),
        (ONES, np.ones((2, 2), np.float32), np.ones((2, 3), bool), r"known must be bool \[2, 2\]"),
        (ONES, np.ones((2, 2), np.float32), np.ones((2, 2), np.int8), r"known must be bool \[2, 2\]"),
    ],
)
def test_wrong_input(truth: np.ndarray, scores: np.ndarray, known: np.ndarray | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        average_precision(truth, scores, known)
