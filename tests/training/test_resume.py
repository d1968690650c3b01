"""An interrupted run goes on, and ends as if it had not been interrupted: to the bit."""

import multiprocessing
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
import torch

from mlml import methods
from mlml.checkpoints.checkpoint import Checkpoint
from mlml.images.store import RowImages
from mlml.methods import TrainLabels
from mlml.model.classifier import Classifier
from mlml.runtime.device import seed_everything
from mlml.training import experiment, loop
from mlml.training.history import Epoch
from mlml.training.recipe import Run
from mlml.training.trajectories import Recorder
from tests.training.test_loop import L, N, data, hidden, recipe
from tests.workspace import Workspace

# Methods that draw random numbers do so in each epoch with these, and the windows of their schedules are open.
OPTIONS = {"pseudo_label": {"start_epoch": 0, "d": 0.5}}


class Stop(Exception):
    pass


def fit(
    name: str, folder: Path, kept: Checkpoint | None = None, stop: int = 0, linear_init: int = 0, epochs: int = 4
) -> tuple[Epoch, list[Epoch], dict[str, torch.Tensor], bytes]:
    """A run as the stage starts it; it ends with `Stop` in the epoch after `stop`."""
    seed_everything(3)
    train, validation = data()
    observed = hidden(train.labels)
    plan = recipe(epochs=epochs, flip=True, linear_init=linear_init)
    model = Classifier(plan.backbone, L)
    method = methods.build(name, TrainLabels(torch.from_numpy(observed), 1.2, 4), OPTIONS.get(name))
    recorder, history = Recorder(N, L, 0, method, torch.device("cpu")), []
    images = train.images

    class Failing(RowImages):
        def stream(self, batches):  # type: ignore[no-untyped-def]
            for number, rows in enumerate(super().stream(batches)):
                if stop and len(history) == stop and number == 2:
                    raise Stop
                yield rows

    assert isinstance(images, RowImages)
    train = train._replace(labels=observed, images=Failing(images._rows))
    best = loop.fit(model, method, train, validation, plan, 3, recorder, history.append, kept)
    folder.mkdir(exist_ok=True)
    recorder.save(folder / "trajectories.npz")
    return best, history, model.state_dict() | method.state_dict(), (folder / "trajectories.npz").read_bytes()


def assert_same(one: tuple, other: tuple) -> None:
    assert one[:2] == other[:2]
    assert one[2].keys() == other[2].keys()
    for name, value in one[2].items():
        assert torch.equal(value, other[2][name]), name
    assert one[3] == other[3]


@pytest.mark.parametrize("name", methods.names())
def test_every_method_goes_on_as_if_nothing_had_been(name: str, tmp_path: Path) -> None:
    whole = fit(name, tmp_path / "whole")
    for stop in (1, 3):  # stopped in the middle of epoch 2, and of epoch 4 when it had gone on
        stopped = Checkpoint(tmp_path, "key")
        with pytest.raises(Stop):
            fit(name, tmp_path / "cut", stopped, stop)
        stopped.wait()  # its thread may still be writing, which that of a killed process is not
        kept = Checkpoint(tmp_path, "key")
        state = kept.load()
        assert state["epoch"] == stop
    assert_same(fit(name, tmp_path / "cut", kept), whole)
    # And once more when all epochs are done, as after a kill before the results were written.
    assert_same(fit(name, tmp_path / "cut", Checkpoint(tmp_path, "key")), whole)


def test_the_linear_layers_epochs_are_not_trained_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = fit("role", tmp_path / "whole", linear_init=2)
    kept = Checkpoint(tmp_path, "key")
    with pytest.raises(Stop):
        fit("role", tmp_path / "cut", kept, 1, linear_init=2)
    kept.wait()
    capsys.readouterr()
    assert_same(fit("role", tmp_path / "cut", Checkpoint(tmp_path, "key"), linear_init=2), whole)
    said = capsys.readouterr().err
    assert said.splitlines()[1] == "resuming after epoch 1"
    assert "linear init" not in said


@pytest.mark.parametrize(
    "change",
    [
        {"model": None},
        {"model": {}},
        {"method": {"plane": torch.zeros(1)}},
        {"optimizer": {}},
        {"optimizer": {"state": {}, "param_groups": []}},
        {"recorder": None},
        {"best": [1]},
        {"history": [[1]]},
        {"order": torch.zeros(3)},
        {"random": None},
    ],
)
def test_a_checkpoint_with_another_content_is_one_line(tmp_path: Path, change: dict[str, object]) -> None:
    kept = Checkpoint(tmp_path, "key")
    with pytest.raises(Stop):
        fit("an", tmp_path / "cut", kept, 1)
    kept.wait()
    state = kept.load()
    assert state is not None
    torch.save({**state, **change}, kept.path)
    with pytest.raises(ValueError, match=r"^the checkpoint in .*checkpoints is not of this run \(\w+\): remove it$"):
        fit("an", tmp_path / "cut", Checkpoint(tmp_path, "key"))


def finish(folder: Path) -> None:
    """A run to its end, from wherever it was."""
    checkpoint = Checkpoint(folder, "key")
    with checkpoint.held():
        _, history, state, _ = fit("role", folder, checkpoint, linear_init=8, epochs=12)
        torch.save([history, state], folder / "result")


def test_kills_at_any_moment(tmp_path: Path) -> None:
    """Again and again, after any time: while the linear layer is trained, in an epoch, while its file is written."""
    start = multiprocessing.get_context("forkserver")  # which imports torch once
    start.set_forkserver_preload(["tests.training.test_resume"])
    folders = [tmp_path / name for name in ("first", "whole", "cut")]
    for folder in folders:
        folder.mkdir()
    for folder in folders[:2]:  # the second time, what it imports is there
        whole, began = start.Process(target=finish, args=[folder]), time.monotonic()
        whole.start()
        whole.join()
    needed, chance, kills = time.monotonic() - began, random.Random(0), 0
    waits = [needed * (part + chance.random()) / 8 for part in range(8)]
    while not (folders[2] / "result").exists():
        run = start.Process(target=finish, args=[folders[2]])
        run.start()
        run.join(waits.pop(0) if waits else 600)
        if run.is_alive():
            run.kill()
            kills += 1
        run.join()
    assert kills > 0
    (history, expected), (again, found) = (torch.load(folder / "result", weights_only=False) for folder in folders[1:])
    assert again == history
    assert all(torch.equal(value, expected[name]) for name, value in found.items())


def test_labels_that_do_not_fit_are_said_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        torch.empty(1 << 55)

    monkeypatch.setattr("mlml.training.experiment.Recorder", full)
    with pytest.raises(MemoryError, match=rf"one number for each of the {N} x {L} labels takes 0 MB; less memory"):
        experiment.train(*data(), recipe(), Run(method="an", seed=0, device="cpu"))


def test_kills_at_random_points_of_the_pipeline(tmp_path: Path) -> None:
    """The stage train is killed, then interrupted, at random after its second epoch; `dvc repro` ends as without."""
    clone = Workspace(tmp_path)
    for key, value in {"method": "pseudo_label", "train.backbone": "test_resnet", "train.epochs": 16}.items():
        clone.set("params.yaml", key, value)
    results = ("model/weights.safetensors", "model/trajectories.npz", "metrics/history.tsv")
    clone.dvc("repro", "train")
    whole = {name: (clone.folder / name).read_bytes() for name in results}
    (clone.folder / "dvc.lock").unlink()
    for name in (".dvc/cache", ".mlml"):  # as if there had been no such run
        shutil.rmtree(clone.folder / name)
    chance = random.Random(0)
    for number in (signal.SIGKILL, signal.SIGINT, None):  # None: DVC itself is killed, and its stage goes on
        words = ["dvc", "repro", "--no-run-cache", "train"]
        with subprocess.Popen(
            words, cwd=clone.folder, env=clone.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, start_new_session=True,
        ) as process:  # fmt: skip
            assert process.stdout
            epochs = (line for line in process.stdout if line.startswith("epoch"))
            for _ in zip(range(3), epochs, strict=False):
                pass  # before the third epoch is told of, the first is on the disk
            time.sleep(chance.uniform(0, 0.3))
            (stage,) = (
                p for p in psutil.Process(process.pid).children(True) if p.cmdline()[1:3] == ["-m", "stages.train"]
            )
            if number:
                stage.send_signal(number)
            else:
                stage.suspend()
                process.kill()
                process.wait()
                second = clone.run(*words)
                assert second.returncode != 0
                assert "another stage still runs in" in second.stdout
                stage.resume()
            said = process.stdout.read()  # ends with the stage
        assert process.returncode != 0
        names = sorted(path.name for path in (clone.folder / ".mlml/checkpoints").iterdir())
        kept = [name for name in names if not name.startswith(".") and name.endswith((".checkpoint", ".complete"))]
        assert len(kept) == (1 if number else 2)
        assert ("train: interrupted; what was trained up to epoch" in said) == (number == signal.SIGINT)
        assert "stages.train" not in (clone.folder / "dvc.lock").read_text()
    said = clone.dvc("repro", "--no-run-cache", "train")
    assert "resuming after epoch 16" in said  # what the orphan trained is not trained again
    assert {name: (clone.folder / name).read_bytes() for name in results} == whole
    # Now DVC has the result: the next training, here the same once more, removes what was kept.
    said = clone.dvc("repro", "--force", "--no-run-cache", "train")
    assert "resuming" not in said
    assert {name: (clone.folder / name).read_bytes() for name in results} == whole
