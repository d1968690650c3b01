"""Features are computed once for all runs that would compute the same."""

import os
from pathlib import Path

import filelock
import numpy as np
import pytest
import torch

from mlml.model.classifier import Classifier
from mlml.model.loader import Examples
from mlml.model.predict import as_features
from mlml.runtime.device import seed_everything
from mlml.training import experiment, features
from mlml.training.features import Features
from mlml.training.recipe import Run
from tests.training.test_loop import L, N, data, recipe


class Counted(Features):
    """Counts the images that are wanted, computed and loaded."""

    def __init__(self, folder: Path) -> None:
        self.counts = np.zeros(3, int)
        super().__init__(folder, lambda *counts: self.counts.__iadd__(counts))


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    """The folder of prepared images, whose files count by name, size and time."""
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "rows.npy").write_bytes(b"12345")
    return folder


def classifier(seed: int = 3) -> Classifier:
    seed_everything(seed)
    return Classifier("test_resnet", L)


def tensor(examples: Examples) -> torch.Tensor:
    assert isinstance(examples.images, torch.Tensor)
    return examples.images


def test_they_are_those_of_the_backbone_and_kept(tmp_path: Path, prepared: Path) -> None:
    (training, validation), expected = data(), tensor(as_features(classifier(), data()[0]))
    kept = Counted(tmp_path / "f")
    for labels in (training.labels, -training.labels):
        found = kept.of(prepared)(classifier(), training._replace(labels=labels))
        assert torch.equal(tensor(found), expected)
        assert found.labels is labels and found.rows.tolist() == [*range(N)]
    assert kept.counts.tolist() == [N, N, 0]
    kept.of(prepared)(classifier(), validation)
    other = Counted(tmp_path / "f")  # as in another process
    model = classifier().train()
    assert torch.equal(tensor(other.of(prepared)(model, training)), expected)
    assert not model.training and not model.backbone._forward_hooks
    assert other.counts.tolist() == [0, 0, N]
    assert len(list((tmp_path / "f").glob("*.npz"))) == 2


def test_whatever_they_depend_on_makes_others(tmp_path: Path, prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training, validation = data()
    kept = Counted(tmp_path / "f")
    kept.of(prepared)(classifier(), training)
    changed = classifier()
    changed.std += 1
    bfloat16, first_channels = classifier(), classifier()
    bfloat16.precision = "bfloat16"
    first_channels.set_layout(False)
    for number, model in enumerate([classifier(4), changed, bfloat16, first_channels], 2):
        kept.of(prepared)(model, training)
        assert kept.counts.tolist() == [number * N, number * N, 0]
    kept.of(prepared)(classifier(), validation)
    os.utime(prepared / "rows.npy", (0, 0))
    kept.of(prepared)(classifier(), training)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 77)
    kept.of(prepared)(classifier(), training)
    assert kept.counts.tolist() == [8 * N, 8 * N, 0]


@pytest.mark.parametrize("damage", [lambda raw: raw[:-9], lambda raw: raw[:200] + b"?" + raw[201:], lambda raw: b""])
def test_a_damaged_file_is_computed_anew(
    tmp_path: Path, prepared: Path, capsys: pytest.CaptureFixture[str], damage: object
) -> None:
    training, _ = data()
    expected = tensor(Features(tmp_path / "f").of(prepared)(classifier(), training))
    (file,) = (tmp_path / "f").glob("*.npz")
    raw = file.read_bytes()
    file.write_bytes(damage(raw))  # type: ignore[operator]
    capsys.readouterr()
    again = Counted(tmp_path / "f")
    assert torch.equal(tensor(again.of(prepared)(classifier(), training)), expected)
    assert again.counts.tolist() == [N, N, 0]
    assert capsys.readouterr().err.startswith(f"{file} is damaged: its features are computed anew\n")
    assert file.read_bytes() == raw
    Features(tmp_path / "f").of(prepared)(classifier(), training)
    assert capsys.readouterr().err == f"features of {N} images from {file}\n"


def test_a_run_is_the_same_with_and_without(tmp_path: Path, prepared: Path) -> None:
    plan, run = recipe(linear_probe=True, epochs=2), Run(method="pseudo_label", seed=3, device="cpu")
    without = experiment.train(*data(), plan, run)
    for _ in range(2):  # computed, and read
        represent = Features(tmp_path / "f").of(prepared)
        trained = experiment.train(*data(), plan, run, features=represent)
        assert trained.best == without.best
        for name, value in trained.classifier.state_dict().items():
            assert torch.equal(value, without.classifier.state_dict()[name]), name


def test_the_files_used_last_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"old": 40, "new": 30, "half": 50}
    for age, (name, size) in enumerate(sizes.items()):
        (tmp_path / f"{name}.npz").write_bytes(bytes(size))
        (tmp_path / f"{name}.lock").touch()
        os.utime(tmp_path / f"{name}.npz", (age, age))
    for limit, left in ((120, {"old", "new", "half"}), (119, {"new", "half"}), (79, {"half"}), (1, set())):
        monkeypatch.setattr(features, "LIMIT", limit)
        features._remove_old(tmp_path)
        assert {path.stem for path in tmp_path.iterdir()} == left


def test_they_are_computed_once_at_a_time(
    tmp_path: Path, prepared: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another process holds the lock, this one waits."""
    training, _ = data()
    Features(tmp_path / "f").of(prepared)(classifier(), training)
    (file,) = (tmp_path / "f").glob("*.npz")
    other = filelock.FileLock(file.with_suffix(".lock"))
    other.acquire()
    waited: list[bool] = []
    acquire = filelock.FileLock.acquire

    def release(lock: filelock.FileLock, **options: float) -> object:
        if not options:
            waited.append(True)
            other.release()
        return acquire(lock, **options)

    monkeypatch.setattr(filelock.FileLock, "acquire", release)
    capsys.readouterr()
    Features(tmp_path / "f").of(prepared)(classifier(), training)
    assert waited
    assert capsys.readouterr().err.startswith("another process computes the same features: waiting for it\n")


def test_a_full_disk_is_told_and_stops_nothing(
    tmp_path: Path, prepared: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object, **values: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    Features(tmp_path / "f").of(prepared)(classifier(), data()[0])
    assert "No space left on device; the features are not kept for other runs\n" in capsys.readouterr().err
    assert not list((tmp_path / "f").glob("*.npz"))
