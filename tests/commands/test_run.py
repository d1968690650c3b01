"""One run of a grid; that it gives what the pipeline gives is shown in test_pipeline."""

from pathlib import Path

import numpy as np
import pytest

from mlml.commands.grid import Job, jobs_of
from mlml.commands.run import Features, run
from mlml.labels import table
from mlml.model.classifier import Classifier
from mlml.model.loader import Examples
from mlml.model.predict import as_features
from mlml.runtime.device import seed_everything
from tests.test_architecture import ROOT
from tests.training.test_loop import L, N, data


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
        run(job({"setting": "pol_001"}), tmp_path, Features())


def test_features_are_kept_for_the_next_run(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[tuple[int, int]] = []
    kept, (training, validation) = Features(lambda *counts: reports.append(counts)), data()
    computed: list[Classifier] = []

    def count(model: Classifier, examples: Examples) -> Examples:
        computed.append(model)
        return as_features(model, examples)

    monkeypatch.setattr("mlml.model.predict.as_features", count)
    seed_everything(3)
    model = Classifier("test_resnet", L)
    one = job({"train.weights": "a", "train.linear_probe": True})
    other = job({"train.weights": "a", "train.linear_probe": True, "train.lr": 0.1, "seed": 1})
    first = kept.of(one)(model, training)
    again = kept.of(other)(model, training._replace(labels=-training.labels))
    assert again.images is first.images
    assert np.array_equal(again.labels, -training.labels)
    kept.of(one)(model, validation)
    assert len(computed) == 2
    for number, words in enumerate([{"train.weights": "b"}, {"train.weights": "none"}, {"seed": 1}], 3):
        kept.of(job({"train.weights": "none", **words}))(model, training)  # another backbone
        assert len(computed) == number
    # Each image is announced, and then computed.
    assert np.sum(reports, 0).tolist() == [5 * N, 5 * N]
    assert (np.cumsum(reports, 0) @ [1, -1] >= 0).all()
    assert not model.backbone._forward_hooks
