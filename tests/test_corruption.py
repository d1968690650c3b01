from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from mlml.corruption import corrupt
from mlml.datasets.readers import voc2012
from mlml.datasets.split import validation_split
from mlml.labels import ABSENT, PRESENT, UNKNOWN, statistics, values
from mlml.settings import Setting
from tests.shared import DATA, coco_labels, needs_data

matrices = hnp.arrays(
    np.int8, hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=30), elements=st.sampled_from([1, -1])
)
settings = st.one_of(
    st.sampled_from(["fol", "spl", "pol_02", "pol_005", "ppl_06", "ppl_08"]).map(Setting.parse),
    st.builds(Setting, st.sampled_from(["pol", "ppl"]), st.integers(1, 999).map(lambda k: Fraction(k, 1000))),
)


def expected_counts(labels: np.ndarray, setting: Setting) -> list[int]:
    """The rules of the settings, image by image."""
    counts = []
    for row in labels:
        k = int((row == PRESENT).sum())
        if setting.kind == "fol":
            counts.append(len(row))
        elif setting.kind == "pol":
            assert setting.rate
            counts.append(round(setting.rate * len(row)))
        elif setting.kind == "ppl":
            assert setting.rate
            counts.append(min(k, floor(setting.rate * k) + 1))
        else:
            counts.append(min(k, 1))
    return counts


@given(matrices, settings, st.integers(0, 2**32))
def test_counts_and_values(labels: np.ndarray, setting: Setting, seed: int) -> None:
    before = labels.copy()
    observed = corrupt(labels, setting, seed)
    assert observed.dtype == np.int8
    assert observed.shape == labels.shape
    kept = observed != UNKNOWN
    assert (observed[kept] == labels[kept]).all()
    assert kept.sum(1).tolist() == expected_counts(labels, setting)
    if setting.kind in ("ppl", "spl"):
        assert not (observed == ABSENT).any()
    assert (labels == before).all()


@given(matrices, settings, st.integers(0, 99), st.integers(1, 200))
def test_chunks_change_nothing(labels: np.ndarray, setting: Setting, seed: int, cells: int) -> None:
    whole = corrupt(labels, setting, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values, "CHUNK_CELLS", cells)
        assert (corrupt(labels, setting, seed) == whole).all()


def test_as_is_leaves_partial_labels_as_they_are() -> None:
    labels = np.array([[1, 0, -1], [0, 0, 0]], np.int8)
    assert (corrupt(labels, Setting("as_is"), 0) == labels).all()
    with pytest.raises(ValueError, match="is unknown"):
        corrupt(labels, Setting("fol"), 0)


@given(matrices, st.sampled_from(["pol", "ppl"]), st.integers(0, 99))
def test_lower_rates_observe_a_part_of_what_higher_ones_do(labels: np.ndarray, kind: str, seed: int) -> None:
    few, many = (corrupt(labels, Setting(kind, Fraction(p, 10)), seed) != UNKNOWN for p in (2, 6))
    assert (many | ~few).all()


def test_the_draw_is_the_same_everywhere() -> None:
    labels = np.where(np.arange(60).reshape(5, 12) % 3, ABSENT, PRESENT).astype(np.int8)
    observed = corrupt(labels, Setting.parse("pol_02"), 1)
    assert np.flatnonzero(observed).tolist() == [2, 9, 16, 18, 28, 31, 36, 39, 48, 55]


def test_all_sets_are_equally_likely() -> None:
    labels = np.full((60_000, 5), PRESENT, np.int8)
    observed = corrupt(labels, Setting.parse("pol_04"), 7) != UNKNOWN
    _, counts = np.unique(observed @ (1 << np.arange(5)), return_counts=True)
    assert len(counts) == 10
    assert stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize(
    "bad", [np.zeros((2, 3), np.int8), np.ones((2, 3)), np.ones(3, np.int8), np.full((1, 1), 2, np.int8)]
)
def test_needs_full_labels(bad: np.ndarray) -> None:
    with pytest.raises(ValueError, match="label"):
        corrupt(bad, Setting.parse("spl"), 0)


@pytest.mark.parametrize("name", ["fol", "pol_02", "ppl_02", "spl"])
def test_no_images(name: str) -> None:
    assert corrupt(np.empty((0, 4), np.int8), Setting.parse(name), 0).shape == (0, 4)


# The paper's Table II. A pol row fixes how many labels are observed; how many of them are positive is chance.
VOC = {
    "fol": (6665, 84815),
    "ppl_08": (6665, 0),
    "ppl_06": (6244, 0),
    "ppl_04": (5009, 0),
    "spl": (4574, 0),
    "pol_005": (340, 4234),
    "pol_01": (649, 8499),
    "pol_02": (1302, 16994),
    "pol_04": (2662, 33930),
    "pol_06": (3974, 50914),
    "pol_08": (5315, 67869),
}
# The paper prints 190378 and 5060122 for fol; they add up to 65665 * 80 only with two digits swapped back.
COCO = {
    "fol": (193078, 5060122),
    "ppl_08": (186723, 0),
    "ppl_06": (152609, 0),
    "ppl_04": (111160, 0),
    "spl": (65665, 0),
}


@pytest.fixture(scope="module")
def voc() -> np.ndarray:
    table = voc2012.label_table(lambda path: (DATA / "voc2012" / path).read_text())
    return table.labels[table.rows("train")]


@pytest.fixture(scope="module")
def coco() -> np.ndarray:
    labels = coco_labels("train")
    return labels[validation_split(len(labels))[0]]


def check_row(labels: np.ndarray, name: str, positives: int, negatives: int) -> None:
    counts = statistics(corrupt(labels, Setting.parse(name), 0))
    assert counts["positives"] + counts["negatives"] == positives + negatives
    if not name.startswith("pol"):
        assert (counts["positives"], counts["negatives"]) == (positives, negatives)
    else:
        # The paper's draw and ours are two draws from one hypergeometric distribution; 6 of its deviations.
        total, present, drawn = labels.size, int((labels == PRESENT).sum()), positives + negatives
        spread = stats.hypergeom(total, present, drawn).std() * 2**0.5
        assert abs(counts["positives"] - positives) < 6 * spread


@needs_data
@pytest.mark.parametrize("name", VOC)
def test_table_of_the_paper_voc(voc: np.ndarray, name: str) -> None:
    assert len(voc) == 4574
    check_row(voc, name, *VOC[name])


@needs_data
@pytest.mark.parametrize("name", COCO)
def test_table_of_the_paper_coco(coco: np.ndarray, name: str) -> None:
    assert len(coco) == 65665
    check_row(coco, name, *COCO[name])
