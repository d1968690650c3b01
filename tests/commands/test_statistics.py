"""The table in docs/results.md is the one that the command makes from the official label lists."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mlml.commands import markdown, statistics
from mlml.datasets.readers import voc2012
from mlml.datasets.split import validation_split
from mlml.labels import table
from tests.commands.conftest import Ended
from tests.shared import DATA, coco_labels, needs_data
from tests.test_architecture import ROOT

PUBLISHED = ROOT / statistics.PUBLISHED


def official(folder: Path) -> dict[str, Path]:
    """What the stage prepare writes for the two data sets whose lists are at hand."""
    table.write(voc2012.label_table(lambda name: (DATA / "voc2012" / name).read_text()), folder / "voc2012")
    labels = coco_labels("train")
    split = np.full(len(labels), "train", dtype=object)
    split[validation_split(len(labels))[1]] = "validation"
    images = tuple(map(str, range(len(labels))))
    table.write(table.Table(tuple(map(str, range(80))), images, tuple(split), labels), folder / "coco2014")
    return {name: folder / name for name in ("voc2012", "coco2014")}


@needs_data
def test_the_documented_table(tmp_path: Path) -> None:
    rows = statistics.compare(PUBLISHED, official(tmp_path))
    verdicts = [statistics.verdict(row) for row in rows.to_dict("records")]
    assert verdicts[:11] == ["exact"] * 5 + ["exact total; which labels is drawn"] * 6
    assert verdicts[11].startswith("slip of the paper: two digits swapped; 193078 + 5060122 = 5253200 labels")
    assert verdicts[12:16] == ["exact"] * 4
    assert verdicts[16:] == ["not compared"] * 5
    written = (ROOT / "docs/results.md").read_text()
    assert markdown.marked("statistics", statistics.markdown(rows)) in written


def small(path: Path, labels: np.ndarray) -> dict[str, Path]:
    n = len(labels)
    table.write(table.Table(tuple("ab"), tuple(map(str, range(n))), ("train",) * n, labels), path)
    return {"voc2012": path}


def test_a_difference_is_said(tmp_path: Path) -> None:
    rows = statistics.compare(PUBLISHED, small(tmp_path / "t", np.array([[1, -1], [1, 1]], np.int8)))
    row = rows.to_dict("records")[0]
    assert (row["ours_positives"], row["ours_negatives"]) == (3, 1)
    assert statistics.verdict(row) == "differs: -6662 positives, -84814 negatives"
    assert "| fol | 6665 | 3 | 84815 | 1 | 1.5 + 18.5 | 1.5 + 0.5 | differs" in statistics.markdown(rows)


def test_as_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mlml: Callable[..., Ended]) -> None:
    monkeypatch.chdir(ROOT)
    file, page = small(tmp_path / "t", np.array([[1, -1], [1, 1]], np.int8))["voc2012"], tmp_path / "page.md"
    status, out, err = mlml("statistics", f"voc2012={file}")
    assert (status, err) == (0, "")
    assert "**Pascal VOC 2012** (2 training images)" in out
    page.write_text(markdown.marked("statistics", "old"))
    assert mlml("statistics", f"voc2012={file}", "--update", page) == (0, "", "")
    assert page.read_text() == markdown.marked("statistics", out.strip())
    assert mlml("statistics", f"voc={file}").err.startswith("mlml statistics: 'voc' is no data set of the paper")


def test_wrong_input(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'voc' is no data set of the paper; they are voc2012, coco2014, nuswide"):
        statistics.compare(PUBLISHED, {"voc": tmp_path})
