"""The reported numbers are scikit-learn's, in percent."""

import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from mlml.evaluation import evaluate, line


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 6), st.sampled_from([0, 1, 3]))
@settings(max_examples=60)
def test_equals_scikit_learn(seed: int, n: int, width: int, decimals: int) -> None:
    random = np.random.RandomState(seed)
    truth = random.random_sample((n, width)) < random.random_sample(width)
    truth[random.randint(n), random.randint(width)] = True  # at least one class has a positive
    scores = random.normal(size=(n, width)).round(decimals).astype(np.float32)  # rounded: with ties
    classes = tuple(f"class {i}" for i in range(width))
    counted = [j for j in range(width) if 0 < truth[:, j].sum() < n]
    if not counted:
        with pytest.raises(ValueError, match="no class has a positive and a negative"):
            evaluate(classes, np.where(truth, 1, -1).astype(np.int8), scores)
        return
    summary, table = evaluate(classes, np.where(truth, 1, -1).astype(np.int8), scores)
    expected = [100 * average_precision_score(truth[:, j], scores[:, j]) for j in counted]
    assert list(table.columns) == ["class", "AP", "positives", "negatives", "left_out"]
    assert tuple(table["class"]) == classes
    assert table["positives"].tolist() == truth.sum(0).tolist()
    assert table["negatives"].tolist() == (n - truth.sum(0)).tolist()
    assert np.flatnonzero(table["left_out"] == "").tolist() == counted
    assert np.flatnonzero(table["AP"].notna()).tolist() == counted
    assert table["AP"].dropna().tolist() == pytest.approx(expected, abs=0.5001e-4)
    assert bool(summary.pop("left_out", "")) == (len(counted) < width)
    assert summary == {
        "mAP": pytest.approx(np.mean(expected), abs=0.5001e-4),
        "images": n,
        "classes": width,
        "classes_without_positives": (truth.sum(0) == 0).sum(),
        "classes_without_negatives": (truth.sum(0) == n).sum(),
        "known_share": 1.0,
    }
    assert summary["mAP"] == round(summary["mAP"], 4)


def test_classes_left_out_are_counted_and_named_by_reason() -> None:
    labels = np.array([[1, -1, 1, 1, 0], [-1, -1, 1, 0, 0], [1, 0, -1, 1, 0]], np.int8)
    scores = np.array([[3, 9, 1, 1, 1], [2, 8, 2, 2, 2], [1, 7, 3, 3, 3]], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        summary, table = evaluate(("a", "none", "c", "all", "what"), labels, scores)
    # a: ranks 1 and 3, so (1 + 2/3) / 2; c: ranks 2 and 3, so (1/2 + 2/3) / 2
    assert table["AP"].fillna(-1).tolist() == [83.3333, -1, 58.3333, -1, -1]
    assert table["positives"].tolist() == [2, 0, 2, 2, 0]
    assert table["negatives"].tolist() == [1, 2, 1, 0, 0]
    never, always = "not known to be present", "not known to be absent"
    assert table["left_out"].tolist() == ["", never, "", always, never]
    assert summary == {
        "mAP": 70.8333,
        "images": 3,
        "classes": 5,
        "classes_without_positives": 2,
        "classes_without_negatives": 1,
        "known_share": 0.666667,
        "left_out": f"{always}: all; {never}: none, what",
    }
    words = f"test mAP 70.83 on 3 images, 2 of 5 classes; left out, {always}: all; {never}: none, what"
    assert line(summary) == words
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_an_unknown_label_counts_in_no_average_precision() -> None:
    labels = np.array([[1, -1], [0, 0], [-1, 0], [1, 1]], np.int8)
    scores = np.array([[3, 2], [9, 9], [2, 9], [1, 1]], np.float32)
    summary, table = evaluate(("a", "b"), labels, scores)
    # a: ranks 1 and 3 of its three known images, so (1 + 2/3) / 2; b: rank 2 of two
    assert table["AP"].tolist() == [83.3333, 50]
    assert table["positives"].tolist() == [2, 1]
    assert (summary["images"], summary["known_share"]) == (4, 0.625)
