"""One run of a grid; that it gives what the pipeline gives is shown in test_pipeline."""

from pathlib import Path

import numpy as np
import pytest

from mlml.commands.grid import Job, jobs_of
from mlml.commands.run import run
from mlml.labels import table
from mlml.training.features import Features
from tests.test_architecture import ROOT


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def job(changes: dict[str, object]) -> Job:
    return next(jobs_of({name: [value] for name, value in changes.items()}))


def test_a_setting_that_observes_nothing_is_told(tmp_path: Path) -> None:
    table.write(
        table.Table(("a", "b"), ("0", "1"), ("train", "train"), np.eye(2, dtype=np.int8) * 2 - 1),
        tmp_path / "labels.csv",
    )
    (tmp_path / "images").mkdir()
    np.save(tmp_path / "images/rows.npy", np.zeros((2, 8, 8, 3), np.uint8))
    (tmp_path / "images/rows.json").write_text('{"upright": false}')
    with pytest.raises(ValueError, match="pol_001 observes none of the 2 labels of any image"):
        run(job({"setting": "pol_001"}), tmp_path, Features(tmp_path / "features"))
