"""What the best epoch is chosen by, where validation labels are partial."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, log_loss

from mlml.model.classifier import Classifier
from mlml.model.predict import predict
from mlml.training import criterion, loop
from mlml.training.criterion import better, choose, line, score
from mlml.training.history import Epoch, History
from tests.training.test_loop import build, data, hidden, recipe


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 4))
def test_scores_are_scikit_learns(seed: int, n: int, width: int) -> None:
    random = np.random.RandomState(seed)
    labels = random.randint(-1, 2, (n, width)).astype(np.int8)
    logits = random.normal(size=(n, width)).astype(np.float32)

    def mean_ap(known: np.ndarray) -> float:
        columns = [(labels[k, j] == 1, logits[k, j]) for j, k in enumerate(known.T)]
        values = [average_precision_score(*each) for each in columns if each[0].any() and not each[0].all()]
        return 100 * float(np.mean(values)) if values else np.nan

    assert score("mAP", labels, logits) == pytest.approx(mean_ap(labels != 0), nan_ok=True)
    assert score("mAP_an", labels, logits) == pytest.approx(mean_ap(np.ones_like(labels, bool)), nan_ok=True)
    known = labels != 0
    if known.any():
        p = 1 / (1 + np.exp(-logits[known].astype(np.float64)))
        assert score("loss", labels, logits) == pytest.approx(log_loss(labels[known] == 1, p, labels=[False, True]))


FULL = [[1, -1], [-1, 1]]
SAMPLE = [[1, 0], [-1, -1]]
FEW_ABSENT = [[1, 0], [-1, 1], [1, 0]]
POSITIVES = [[1, 0], [0, 1]]
ALWAYS = [[1, 1], [1, 1]]  # each class wherever it is known, and known everywhere


@pytest.mark.parametrize(
    ("labels", "chosen", "allowed"),
    [
        (FULL, "mAP", "mAP mAP_an loss"),
        ([[1, 1], [-1, 1]], "mAP", "mAP mAP_an loss"),
        (SAMPLE, "mAP", "mAP mAP_an loss"),
        (FEW_ABSENT, "mAP_an", "mAP mAP_an loss"),
        (POSITIVES, "mAP_an", "mAP_an"),
        ([[1, 0], [0, -1]], "mAP_an", "mAP_an loss"),
        (ALWAYS, "", ""),
        ([[-1, 0], [0, -1]], "", ""),
        ([[0, 0]], "", ""),
    ],
)
def test_what_labels_allow(labels: list[list[int]], chosen: str, allowed: str) -> None:
    values = np.array(labels, np.int8)
    for wanted in ("mAP", "mAP_an", "loss"):
        if wanted in allowed.split():
            assert choose(wanted, values) == wanted
        else:
            with pytest.raises(ValueError, match=rf"^train\.select_by: {wanted} is not possible with [^\n]*$"):
                choose(wanted, values)
    if chosen:
        assert choose(None, values) == chosen
    else:
        with pytest.raises(ValueError, match=r"^train\.select_by: "):
            choose(None, values)


def test_it_is_told() -> None:
    assert line("mAP", np.array(FULL, np.int8)) == "best epoch chosen by validation mAP"
    words = "best epoch chosen by validation mAP of the known labels, defined for 1 of 2 classes"
    assert line("mAP", np.array(SAMPLE, np.int8)) == words
    words = "best epoch chosen by validation mAP with unknown labels taken as absent"
    assert line("mAP_an", np.array(POSITIVES, np.int8)) == words


def test_a_loss_is_better_when_lower() -> None:
    assert better("loss", 1, 2) and not better("loss", 2, 1) and not better("loss", 1, 1)
    assert better("mAP", 2, 1) and not better("mAP", 1, 2) and not better("mAP_an", 1, 1)


@pytest.mark.parametrize("wanted", ["mAP_an", "loss"])
def test_a_run_keeps_the_best_epoch_by_it(wanted: criterion.Criterion, tmp_path: Path) -> None:
    train, validation = data()
    validation = validation._replace(labels=hidden(validation.labels))
    model, history = Classifier("test_resnet", 3), History(tmp_path / "history.tsv")
    best = loop.fit(model, build("bce"), train, validation, recipe(epochs=4, select_by=wanted), 0, on_epoch=history)
    found = pd.read_csv(tmp_path / "history.tsv", sep="\t")
    assert found.columns.tolist() == ["epoch", "loss", "validation_mAP", f"validation_{wanted}"]
    order = found[f"validation_{wanted}"]
    assert best.epoch == 1 + (order.argmin() if wanted == "loss" else order.argmax())
    assert score(wanted, validation.labels, predict(model, validation)) == getattr(best, f"validation_{wanted}")
    assert best.scores().keys() == {"validation_mAP", f"validation_{wanted}"}


def test_a_score_that_is_not_defined_is_blank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, validation = data()
    validation = validation._replace(labels=np.maximum(validation.labels, 0))
    history = History(tmp_path / "history.tsv")
    best = loop.fit(Classifier("test_resnet", 3), build("an"), train, validation, recipe(epochs=1), 0, on_epoch=history)
    assert best.scores().keys() == {"validation_mAP_an"}
    row = (tmp_path / "history.tsv").read_text().splitlines()[1].split("\t")
    assert row[2] == "" and float(row[3]) == pytest.approx(best.validation_mAP_an)
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "best epoch chosen by validation mAP with unknown labels taken as absent"
    assert told[1].endswith(f"  validation mAP_an {best.validation_mAP_an:.2f}") and "validation mAP " not in told[1]


def test_without_a_choice_the_history_is_as_it_was() -> None:
    assert Epoch(1, 0.5, 20.0).scores() == {"validation_mAP": 20.0}
    assert Epoch(1, 0.5, 20.0).line() == "validation mAP 20.00"
