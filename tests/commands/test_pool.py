"""What is to be run, and what is left of it; that a run gives what the pipeline gives is shown in test_pipeline."""

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from mlml import methods
from mlml.labels import table
from paper import jobs as paper_jobs
from paper import runs
from tests.test_architecture import ROOT


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def jobs(*words: str) -> list[paper_jobs.Job]:
    return list(paper_jobs.jobs_of(paper_jobs.grid_of(words)))


def test_a_grid_is_every_combination() -> None:
    found = jobs("setting=spl,pol_02", "method=an,bce", "train.lr=1e-3,0.01", "seed=3")
    assert [(str(job.setting), job.axes.method, job.plan.lr) for job in found[:3]] == [
        ("spl", "an", 1e-3),
        ("spl", "an", 0.01),
        ("spl", "bce", 1e-3),
    ]
    assert len({job.key for job in found}) == 8
    assert {job.axes.seed for job in found} == {3}


def test_without_changes_it_is_the_run_of_params_yaml() -> None:
    (job,) = jobs()
    cells = dict(zip(paper_jobs.KEYS, job.key, strict=True))
    assert cells["dataset"] == "digits"
    assert (cells["setting"], cells["method"], cells["method.options"]) == ("pol_02", "pseudo_label", "")
    assert (cells["train.backbone"], cells["train.lr"], cells["train.linear_init"]) == ("resnet10t", "0.001", "0")


def test_a_row_says_which_options_are_not_the_defaults() -> None:
    (job,) = jobs("method=asl", "methods.asl.gamma_neg=4", "methods.asl.margin=0.05", "methods.focal.gamma=1e-1")
    assert job.key[3] == "gamma_neg=4.0"  # not what is the default, nor another method's
    assert job.options == {"gamma_neg": 4.0, "gamma_pos": 1.0, "margin": 0.05}
    (job,) = jobs("method=pseudo_label_no_update", "+methods.pseudo_label_no_update.alpha=5e-1")
    assert job.key[3] == "alpha=0.5"


@pytest.mark.parametrize("name", methods.names())
def test_every_method_can_be_run(name: str) -> None:
    assert [job.key[2:4] for job in jobs(f"method={name}")] == [(name, "")]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("setting", "-S setting: must be name=value"),
        ("train.momentum=1", "-S train.momentum: no parameter of a run"),
        ("trian.lr=1", "-S trian.lr: no parameter of a run"),
        ("plot.dpi=100", "-S plot.dpi: no parameter of a run"),
        ("dataset=voc2012", "-S dataset: the prepared data set is that of params.yaml"),
        ("train.lr=-1", "train.lr: -1 is not allowed; must be greater than 0"),
        ("method=none", "'none'"),
        ("methods.pseudo_label.x=1", "methods.pseudo_label.x: unknown key; it takes alpha, beta"),
        ("setting=pol_2", "setting: 'pol_2' is not allowed"),
    ],
)
def test_a_wrong_word_is_refused_before_anything_runs(word: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        jobs(word)
    assert message in str(caught.value)


def test_a_setting_that_observes_nothing_is_told(tmp_path: Path) -> None:
    table.write(
        table.Table(("a", "b"), ("0", "1"), ("train", "train"), np.eye(2, dtype=np.int8) * 2 - 1),
        tmp_path / "labels.csv",
    )
    (tmp_path / "images").mkdir()
    np.save(tmp_path / "images/rows.npy", np.zeros((2, 8, 8, 3), np.uint8))
    with pytest.raises(ValueError, match="pol_001 observes none of the 2 labels of any image"):
        runs.run(jobs("setting=pol_001")[0], tmp_path)


def test_grids_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "grid.yaml"
    file.write_text("- {seed: [0, 1], train.lr: [3e-4]}\n- {setting: [spl]}\n")
    assert [len(list(paper_jobs.jobs_of(grid))) for grid in paper_jobs.read_grids(file)] == [2, 1]
    for wrong in ("seed: 0", "- seed", "- {seed: 0}"):
        file.write_text(wrong)
        with pytest.raises(ValueError, match="must be a list of grids"):
            paper_jobs.read_grids(file)


def test_rows_that_are_there_are_not_run_again_and_failures_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no data every run fails; a run with a row is not tried."""
    results = tmp_path / "runs.csv"
    one, other = jobs("seed=0,1")
    assert runs.run_all([one, other], tmp_path, 2, results) == 2
    assert "labels.csv" in capsys.readouterr().err
    assert runs.done(results) == set()
    with results.open("a") as file:
        file.write(",".join([*one.key, "1", "1", "1", "1"]) + "\n")
    assert runs.done(results) == {one.key}
    monkeypatch.setattr("sys.argv", ["runs", str(results), "-S", "seed=0,1", "--data", str(tmp_path)])
    with pytest.raises(SystemExit, match="runs: 1 of 1 runs have no result"):
        runs.main()
    results.write_text(results.read_text()[:-2])
    with pytest.raises(ValueError, match="the last line is cut off; remove it"):
        runs.done(results)
    results.write_text("a,b\n")
    with pytest.raises(ValueError, match="has other columns"):
        runs.done(results)


def test_a_stopped_command_leaves_no_process(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "labels.csv")  # whoever reads it waits for ever
    words = [sys.executable, "-m", "paper.runs", str(tmp_path / "runs.csv"), "-S", "seed=0", "--data", str(tmp_path)]
    with (
        subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process,
        open(tmp_path / "labels.csv", "wb"),  # which waits for the reader
    ):
        children = psutil.Process(process.pid).children(True)
        process.terminate()
        said = process.communicate()[1]
    assert "runs: stopped; what is done is kept" in said
    assert children
    assert psutil.wait_procs(children, timeout=60)[1] == []


def test_a_killed_process_ends_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "labels.csv")  # whoever reads it waits for ever
    monkeypatch.setattr("sys.argv", ["runs", str(tmp_path / "runs.csv"), "-S", "seed=0,1", "--data", str(tmp_path)])

    def kill() -> None:
        while not (children := multiprocessing.active_children()):
            time.sleep(0.01)
        for child in children:
            child.kill()

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    with pytest.raises(SystemExit, match="runs: a process was killed"):
        runs.main()
    killer.join()
    assert runs.done(tmp_path / "runs.csv") == set()
