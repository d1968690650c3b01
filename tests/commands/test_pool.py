"""Many runs at a time: what is told and kept of them, and what is left when they are stopped."""

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
import yaml

from mlml.commands import pool, prepared
from mlml.commands.grid import KEYS, Job, grid_of, jobs_of
from mlml.commands.run import RESULTS
from mlml.labels import table
from tests.commands.conftest import Ended
from tests.core.test_progress import Terminal
from tests.test_architecture import ROOT
from tests.training.test_loop import data


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def jobs(*words: str) -> list[Job]:
    return list(jobs_of(grid_of(words)))


def test_rows_that_are_there_are_not_run_again_and_failures_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture, mlml: Callable[..., Ended]
) -> None:
    """With no data every run fails; a run with a row is not tried."""
    results = tmp_path / "runs.csv"
    one, other = jobs("seed=0,1")
    assert pool.run_all([one, other], tmp_path, "state", 2, results) == 2
    lines = sorted(line.partition(" digits ") for line in capsys.readouterr().err.splitlines())
    assert [line[0] for line in lines] == ["run 1/2", "run 2/2"]
    assert all("labels.csv" in line[2] for line in lines)
    (tmp_path / "labels.csv").touch()
    state = prepared.state(tmp_path)
    assert pool.done(results, state) == set()
    with results.open("a") as file:
        file.write(",".join([*one.key, state, *"123456"]) + "\n")
    assert pool.done(results, state) == {one.key}
    words = ("grid", results, "-S", "seed=0,1", "--data", tmp_path)
    ended = mlml(*words)
    assert (ended.status, ended.err.splitlines()[-1]) == (1, "mlml grid: 1 of 1 runs have no result")
    assert ended.err.startswith(f"{results} has 1 of 2 runs already\nrun 1/1 digits pol_02 pseudo_label 1: ")
    (tmp_path / "labels.csv").write_text("other labels")
    ended = mlml(*words)
    assert (ended.status, ended.err.splitlines()[-1]) == (1, "mlml grid: 2 of 2 runs have no result")
    (tmp_path / "labels.csv").unlink()
    missing = f"mlml grid: {tmp_path}/labels.csv is missing: run `dvc repro prepare`\n"
    assert mlml(*words) == (1, "", missing)


def test_what_is_no_file_of_results_is_refused(tmp_path: Path) -> None:
    results = tmp_path / "runs.csv"
    (job,) = jobs()
    for text, line in {
        ",".join(pool.COLUMNS) + "\ndigits": "the last line is cut off; remove it",
        "a,b\n": "has other columns; name another file",
        ",".join([*KEYS, *RESULTS]) + "\n": "has no column 'data', which tells states of a data set apart",
    }.items():
        results.write_text(text)
        with pytest.raises(ValueError, match=line):
            pool.done(results, "state")
    results.write_text("")  # killed before the header was written
    assert pool.done(results, "state") == set()
    assert pool.run_all([job], tmp_path, "state", 1, results) == 1
    assert pool.done(results, "state") == set()
    results.unlink()
    os.mkfifo(results)  # whoever opens it waits for ever
    with pytest.raises(ValueError, match="is a named pipe; name a file"):
        pool.done(results, "state")


def test_data_that_change_meanwhile_stop_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row would be under the old state."""
    (job,) = jobs()

    @contextmanager
    def outcomes(*_: object) -> Iterator[Iterator[tuple[Job, str]]]:
        (tmp_path / "labels.csv").write_text("other labels")
        yield iter([(job, "")])

    monkeypatch.setattr(pool, "_outcomes", outcomes)
    with pytest.raises(ValueError, match="was changed while runs were on; what is done is kept"):
        pool.run_all([job], tmp_path, "state", 1, tmp_path / "runs.csv")


def test_a_failed_run_has_its_traceback_on_demand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLML_TRACEBACK", raising=False)
    (job,) = jobs()
    reason = f"No such file or directory: '{tmp_path}/labels.csv'"
    assert pool._work(job, tmp_path) == (job, reason)
    monkeypatch.setenv("MLML_TRACEBACK", "1")
    traceback = pool._work(job, tmp_path)[1]
    assert isinstance(traceback, str)
    assert traceback.startswith("Traceback (most recent call last):")
    assert traceback.rstrip().endswith(reason)


def test_probes_of_one_backbone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mlml: Callable[..., Ended]) -> None:
    """From a project folder to a table; in a log, the features that are computed once are a line every tenth."""
    parts, labels = data(), np.concatenate([examples.labels for examples in data()])
    n = len(labels)
    split = ("train", "validation", "test") * n
    (tmp_path / "data/images").mkdir(parents=True)
    images = np.stack([next(iter(parts[0].images.stream([np.array([row])])))[0] for row in range(n)])
    np.save(tmp_path / "data/images/rows.npy", images)
    (tmp_path / "data/images/rows.json").write_text('{"upright": false}')
    names = tuple(map(str, range(n)))
    table.write(table.Table(("a", "b", "c"), names, split[:n], labels), tmp_path / "data/labels.csv")
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    params["train"] |= {"backbone": "test_resnet", "linear_probe": True, "epochs": 1}
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    (tmp_path / "datasets").symlink_to(ROOT / "datasets")
    monkeypatch.chdir(tmp_path)
    ended = mlml("grid", "runs.csv", "-S", "method=an", "-S", "train.lr=1e-2,1e-3")
    assert ended.status == 0, ended.err
    lines = ended.out.splitlines()
    assert re.fullmatch(
        r"run 1/2 digits pol_02 an 0: validation \d+\.\d\d, test \d+\.\d\d; about \d\d:\d\d left", lines[0]
    )
    assert re.fullmatch(r"run 2/2 digits pol_02 an 0: validation \d+\.\d\d, test \d+\.\d\d", lines[1])
    assert len(lines) == 2
    assert ended.err.splitlines()[-1] == f"features: 100% of {n} images"
    assert all(line.startswith("features: ") for line in ended.err.splitlines())
    rows = pd.read_csv("runs.csv")
    assert sorted(rows["train.lr"]) == [1e-3, 1e-2]
    nothing_to_do = mlml("grid", "runs.csv", "-S", "method=an", "-S", "train.lr=1e-2,1e-3")
    assert nothing_to_do == (0, "", "runs.csv has 2 of 2 runs already\n")


def test_features_from_the_disk_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    wanted, computed, loaded = (multiprocessing.Value("q", 0) for _ in range(3))
    with pool._features_shown(wanted, computed, loaded) as look:
        for images in (0, 20, 40):
            loaded.value = images
            look()
    assert capsys.readouterr().err == "features are read from .mlml/features/\n"


def test_the_features_of_all_processes_are_one_bar() -> None:
    wanted, computed, loaded = (multiprocessing.Value("q", 0) for _ in range(3))
    with redirect_stderr(Terminal()) as terminal, pool._features_shown(wanted, computed, loaded) as look:
        look()
        assert terminal.getvalue() == ""
        wanted.value, computed.value = 400, 100
        look()
        wanted.value, computed.value = 500, 500
        with computed.get_lock():  # as of a process that was killed
            look()
    assert [line.partition("|")[0] for line in terminal.lines()] == ["features: 100%", ""]
    assert "| 500/500 [" in terminal.lines()[0]


@pytest.mark.parametrize(
    ("number", "status", "line"),
    [(signal.SIGTERM, 1, "stopped; what is done is kept"), (signal.SIGINT, 130, "interrupted; what is done is kept")],
    ids=["SIGTERM", "SIGINT"],
)
def test_a_stopped_command_leaves_no_process(number: int, status: int, line: str, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    parts = ("train", "validation", "test")
    table.write(table.Table(("a", "b"), parts, parts, np.array([[1, -1]] * 3, np.int8)), tmp_path / "labels.csv")
    np.save(tmp_path / "images/rows.npy", np.zeros((3, 8, 8, 3), np.uint8))
    os.mkfifo(tmp_path / "images/rows.json")  # a run that reads it waits for ever
    words = [sys.executable, "-m", "paper.runs", str(tmp_path / "runs.csv"), "-S", "seed=0,1", "--jobs", "2"]
    with (
        subprocess.Popen([*words, "--data", str(tmp_path)], cwd=ROOT, stderr=subprocess.PIPE, text=True) as process,
    ):
        while len(children := psutil.Process(process.pid).children(True)) < 3:  # two, and one that cleans up
            assert process.poll() is None
            time.sleep(0.01)
        if number == signal.SIGINT:  # from the terminal, to all: the two have only begun
            for child in children:
                child.send_signal(number)
        process.send_signal(number)
        err = process.communicate()[1]
    assert (process.returncode, err) == (status, f"mlml grid: {line}\n")
    assert psutil.wait_procs(children, timeout=60)[1] == []


def test_a_killed_process_ends_the_command(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "labels.csv")  # whoever reads it waits for ever

    def kill() -> None:
        while not (children := multiprocessing.active_children()):
            time.sleep(0.01)
        for child in children:
            child.kill()

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    with pytest.raises(ValueError, match="a process was killed"):
        pool.run_all(jobs("seed=0,1"), tmp_path, "state", 1, tmp_path / "runs.csv")
    killer.join()
    assert pool.done(tmp_path / "runs.csv", "state") == set()
