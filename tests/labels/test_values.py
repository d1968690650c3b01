import numpy as np

from mlml.labels import statistics, without_ap


def test_statistics() -> None:
    observed = np.array([[1, 1, 0, -1], [0, 0, 0, 0], [-1, -1, -1, 0]], np.int8)
    counts = {"images": 3, "classes": 4, "positives": 2, "negatives": 4}
    means = {"positives_per_image": 0.666667, "negatives_per_image": 1.333333, "observed_share": 0.5}
    assert statistics(observed) == {**counts, **means, "images_without_positive": 2, "images_without_label": 1}


def test_why_a_class_has_no_average_precision() -> None:
    labels = np.array([[1, 1, -1, 0, 1], [-1, 1, -1, 0, 0]], np.int8)
    present, absent = "not known to be present", "not known to be absent"
    assert without_ap(labels) == ["", absent, present, present, absent]
    assert without_ap(labels[:0]) == [present] * 5
