"""Grids of parameters, and the runs that they stand for."""

import os
from pathlib import Path

import pytest

from mlml import methods
from mlml.commands.grid import KEYS, Job, grid_of, jobs_of, read_grids
from tests.test_architecture import ROOT


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def jobs(*words: str) -> list[Job]:
    return list(jobs_of(grid_of(words)))


def test_a_grid_is_every_combination() -> None:
    found = jobs("setting=spl,pol_02", "method=an,bce", "train.lr=1e-3,0.01", "seed=3")
    assert [(str(job.setting), job.run.method, job.recipe.lr) for job in found[:3]] == [
        ("spl", "an", 1e-3),
        ("spl", "an", 0.01),
        ("spl", "bce", 1e-3),
    ]
    assert len({job.key for job in found}) == 8
    assert {job.run.seed for job in found} == {3}


def test_without_changes_it_is_the_run_of_params_yaml() -> None:
    (job,) = jobs()
    cells = dict(zip(KEYS, job.key, strict=True))
    assert cells["dataset"] == "digits"
    assert (cells["setting"], cells["method"], cells["method.options"]) == ("pol_02", "pseudo_label", "")
    assert (cells["train.backbone"], cells["train.lr"], cells["train.linear_init"]) == ("resnet10t", "0.001", "0")


def test_a_row_says_which_options_are_not_the_defaults() -> None:
    (job,) = jobs("method=asl", "methods.asl.gamma_neg=4", "methods.asl.margin=0.05", "methods.focal.gamma=1e-1")
    assert job.key[3] == "gamma_neg=4.0"  # not what is the default, nor another method's
    assert job.run.options == {"gamma_neg": 4.0, "gamma_pos": 1.0, "margin": 0.05}
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
        ("methods.pseudo_labl.alpha=0.9", "-S methods.pseudo_labl.alpha: no parameter of a run"),
        ("methods.asl.alpha=0.9", "methods.asl.alpha: unknown key; it takes gamma_neg"),  # not the run's method
        ("processes=4", "-S processes: no parameter of a run"),
        ("train.lr.x=1", "-S train.lr.x: no parameter of a run"),
        ("train.lr=[1e-3", "-S train.lr=[1e-3: must be name=value"),
        ("train.flip=off", "train.flip: 'off' is not allowed; must be a valid boolean"),
    ],
)
def test_a_wrong_word_is_refused_before_anything_runs(word: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        jobs(word)
    assert message in str(caught.value)


def test_values_are_read_as_params_yaml_is() -> None:
    """YAML 1.2: in 1.1, 010 is 8 and 1e-3 a text."""
    (job,) = jobs("seed=010", "train.lr=1e-3", "train.flip=true")
    assert (job.run.seed, job.recipe.lr, job.recipe.flip) == (10, 1e-3, True)
    with pytest.raises(ValueError, match=r"-S methods\.asl\.margin: given twice"):
        grid_of(["methods.asl.margin=0.1", "+methods.asl.margin=0.2"])


def test_grids_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "grid.yaml"
    file.write_text("- {seed: [0, 1], train.lr: [3e-4]}\n- {setting: [spl]}\n")
    assert [len(list(jobs_of(grid))) for grid in read_grids(file)] == [2, 1]
    for wrong, line in {
        "seed: 0": "must be",
        "- seed": "must be",
        "- {seed: 0}": "must be",
        "- [": "is no YAML",
        "- {seed: []}": "must be",
        "- {1: [0]}": "must be",
        "[]": "must be",
        "- seed: [0]\n  seed: [1]": 'is no YAML file: line 2: found duplicate key "seed"',
    }.items():
        file.write_text(wrong)
        with pytest.raises(ValueError, match=line):
            read_grids(file)
    (tmp_path / "pipe").symlink_to(tmp_path / "fifo")
    os.mkfifo(tmp_path / "fifo")  # whoever reads it waits for ever
    with pytest.raises(ValueError, match="pipe is a named pipe, not a file"):
        read_grids(tmp_path / "pipe")
