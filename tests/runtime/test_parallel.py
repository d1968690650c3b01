"""Several processes that share each batch: the result of one, and an end when one of them dies."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import torch
from torch import nn
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

import stages.train
from mlml.runtime import parallel
from tests.runtime import ranks
from tests.test_architecture import ROOT
from tests.workspace import Workspace

TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
STAGE = ["-m", "stages.train", "data/images", "data/labels.csv", "data/observed.csv"]
CHANGES = {
    "method": "pseudo_label",
    "train.backbone": "test_resnet",
    "train.epochs": 40,
    "processes": 2,
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, dict[str, torch.Tensor]]]:
    """What the trainings of ranks.py leave in each of two processes, on two nodes that are this machine."""
    folder = tmp_path_factory.mktemp("ranks")
    group = ["--nnodes", "2", "--nproc-per-node", "1", "--master-addr", "localhost"]
    group += ["--master-port", str(29400 + os.getpid() % 500), "--log-dir", str(folder / "logs")]
    nodes = [
        subprocess.Popen(
            [*TORCHRUN, *group, "--node-rank", str(node), "-m", "tests.runtime.ranks", str(folder)],
            cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True,
        )
        for node in range(2)
    ]  # fmt: skip
    outputs = [node.communicate(timeout=300)[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], outputs
    assert outputs[0].count("epoch  2/2") == len(ranks.METHODS) + 4
    assert outputs[0].count("resuming after epoch 1") == 2
    assert "epoch" not in outputs[1]
    return [torch.load(folder / str(rank)) for rank in range(2)]


@pytest.mark.xdist_group("ranks")  # so that `found` is made once
@pytest.mark.parametrize("name", [*ranks.METHODS, "probe"])
def test_two_processes_train_as_one(name: str, found: list[dict[str, dict[str, torch.Tensor]]]) -> None:
    """On the same batches of 7 and 8 images: weights, pseudo labels, own parameters, losses and predictions.

    In float64 by Adam, whose epsilon then outweighs a gradient that is nothing but rounding.
    """
    one = ranks.train("pseudo_label", probe=True) if name == "probe" else ranks.train(name)
    first, second = (each[name] for each in found)
    assert one.keys() == first.keys() == second.keys()
    for key, expected in one.items():
        assert torch.equal(first[key], second[key]), key
        torch.testing.assert_close(first[key], expected, rtol=1e-9, atol=1e-9, msg=lambda said, key=key: key + said)


@pytest.mark.xdist_group("ranks")
def test_batch_norm_of_each_process_is_another_training(found: list[dict[str, dict[str, torch.Tensor]]]) -> None:
    """The processes stay one model all the same, running statistics included."""
    first, second = (each["batch norm"] for each in found)
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert (first["logits"] - ranks.train("an", "test_resnet")["logits"]).abs().max() > 1e-3


@pytest.mark.xdist_group("ranks")
def test_an_interrupted_run_ends_as_if_it_had_not_been(found: list[dict[str, dict[str, torch.Tensor]]]) -> None:
    for each in found:
        for name in ("role", "pseudo_label"):
            assert all(torch.equal(value, each[name][key]) for key, value in each[f"resumed {name}"].items())


def test_without_a_group_nothing_is_shared() -> None:
    part, model = torch.rand(3, 2), nn.Linear(2, 2)
    assert (parallel.world_size(), parallel.rank(), parallel.is_main()) == (1, 0, True)
    assert torch.equal(parallel.share(part), part)
    assert parallel.gather_batch(part, 3) is part
    assert parallel.all_reduce(part) is part
    assert parallel.replicated(model) is model
    assert parallel.broadcast(lambda: 5) == 5


def test_a_batch_has_an_image_for_every_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """37 images in batches of 8: the smallest has 7."""
    monkeypatch.setattr("mlml.runtime.parallel.world_size", lambda: 8)
    with pytest.raises(ValueError, match=r"train\.batch_size: 8 is not allowed with 8 processes; each needs an image"):
        ranks.train("an")


def test_a_process_dies_and_the_run_goes_on_to_the_same_end(tmp_path: Path) -> None:
    """`processes: 2` under dvc: one is killed, first the one that started the others; the end is as without."""
    clone = Workspace(tmp_path)
    for key, value in CHANGES.items():
        clone.set("params.yaml", key, value)
    for rank in (None, "1"):
        with subprocess.Popen(
            ["dvc", "repro", "train"], cwd=tmp_path, env=clone.environment(), stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        ) as process:  # fmt: skip
            assert process.stdout
            epochs = (line for line in process.stdout if line.startswith("epoch"))
            for _ in zip(range(3), epochs, strict=False):
                pass  # before the third is told of, the first is on the disk
            children = psutil.Process(process.pid).children(True)
            started = [child for child in children if "stages.train" in child.cmdline()]
            assert len(started) == 3, process.stdout.read()
            (victim,) = (child for child in started if child.environ().get("RANK") == rank)
            victim.send_signal(signal.SIGKILL)
            said = process.stdout.read()
        assert process.returncode != 0
        assert "failed to reproduce 'train'" in said
        assert psutil.wait_procs(started, timeout=60)[1] == []  # nobody goes on alone

    assert "resuming after epoch" in clone.dvc("repro", "evaluate")
    test = json.loads((tmp_path / "metrics/test.json").read_text())
    assert test["images"] == 30

    logs = ["--log-dir", str(tmp_path / "logs")]
    done = clone.run(*TORCHRUN, "--standalone", "--nproc-per-node", "2", *logs, *STAGE, "alone", "alone.tsv")
    assert done.returncode == 0, done.stdout
    assert "best epoch" in done.stdout
    for name in ("weights.safetensors", "trajectories.npz"):
        assert (tmp_path / "alone" / name).read_bytes() == (tmp_path / "model" / name).read_bytes()


def test_a_wrong_value_is_said_before_processes_start(monkeypatch: pytest.MonkeyPatch) -> None:
    training = {"backbone": "test_resnet", "weights": "none", "lr": -1, "batch_size": 8, "epochs": 2, "flip": False}
    given = {"dataset": "digits", "training": training, "train": {}, "processes": 2}
    started: list[object] = []
    monkeypatch.setattr("stages.train.parameters", lambda stage: given)
    monkeypatch.setattr("stages.train.shared", started.append)
    with pytest.raises(ValueError, match=r"training\.lr: -1 is not allowed"):
        stages.train.main(*map(Path, "abcde"))
    assert started == []


def test_more_processes_than_the_machine_can_use(monkeypatch: pytest.MonkeyPatch) -> None:
    from mlml.runtime import launch

    monkeypatch.setattr(launch, "_torchrun", lambda count: f"{count} are started")
    with pytest.raises(ValueError, match=r"processes: 1000000 is not allowed; must be \d+ at most on this machine"):
        launch.shared(10**6).__enter__()
    with pytest.raises(SystemExit, match="2 are started"):
        launch.shared(2).__enter__()


@pytest.mark.parametrize("end", ["good", "failure", "signal", "error"])
def test_nothing_is_left_in_the_temporary_folder(end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlml.runtime import launch

    ends: dict[str, Callable[[], object]] = {
        "good": lambda: None,
        "failure": lambda: raise_(ChildFailedError("x", {1: ProcessFailure(1, 1, 9, "none")})),
        "signal": lambda: raise_(SignalException("stopped", signal.SIGINT)),
        "error": lambda: raise_(KeyboardInterrupt()),
    }

    def raise_(error: BaseException) -> None:
        raise error

    def torchrun(words: list[str]) -> None:
        logs = Path(words[words.index("--log-dir") + 1])
        assert logs.parent == tmp_path
        (logs / "attempt").mkdir()
        ends[end]()

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(launch, "torchrun", torchrun)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with suppress(KeyboardInterrupt):
        status = launch._torchrun(2)
        said = str(status).partition(": ")[2]
        assert {"good": status == 0, "signal": status == 130, "failure": said.startswith("process 1 of 2 ended")}[end]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("count", [0, "2", True, None])
def test_a_wrong_number_of_processes(count: object) -> None:
    from mlml.runtime.launch import shared

    with (
        pytest.raises(ValueError, match=rf"processes: {count!r} is not allowed; must be a whole number"),
        shared(count),
    ):
        time.sleep(0)
