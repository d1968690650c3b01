"""Whatever a result depends on makes another key."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from mlml.checkpoints import fingerprint as module
from mlml.checkpoints.fingerprint import fingerprint

CPU = torch.device("cpu")


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    table, images = tmp_path / "labels.csv", tmp_path / "rows.npy"
    table.write_text("a,b\n")
    images.write_bytes(b"12345")
    return table, images


def key(files: tuple[Path, Path], **values: object) -> str:
    return fingerprint({"lr": 1e-3, **values}, files[:1], files[1:], CPU)


def test_the_same_twice(files: tuple[Path, Path]) -> None:
    assert key(files) == key(files)
    assert len(key(files)) == 32


def loaded(monkeypatch: pytest.MonkeyPatch, files: tuple[Path, Path]) -> None:
    own = ModuleType("mlml.own")
    own.__file__ = str(files[0])
    monkeypatch.setitem(sys.modules, "mlml.own", own)


CHANGES: dict[str, Callable[[pytest.MonkeyPatch, tuple[Path, Path]], object]] = {
    "label table": lambda _, files: files[0].write_text("a,c\n"),
    "size of the images": lambda _, files: files[1].write_bytes(b"123456"),
    "time of the images": lambda _, files: os.utime(files[1], (0, 0)),
    "code": loaded,
    "threads": lambda patch, _: patch.setattr(torch, "get_num_threads", lambda: 77),
    "version": lambda patch, _: patch.setattr(module, "version", lambda name: "0"),
    "device": lambda patch, _: patch.setattr(module, "_name", lambda device: "another card"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_any_change_makes_another_key(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    before = key(files)
    CHANGES[what](monkeypatch, files)
    assert key(files) != before


def test_code_that_is_loaded_can_be_left_out(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint([], [], [], CPU, loaded_code=False)
    loaded(monkeypatch, files)
    assert fingerprint([], [], [], CPU, loaded_code=False) == before != fingerprint([], [], [], CPU)


def test_a_parameter_makes_another_key(files: tuple[Path, Path]) -> None:
    assert len({key(files), key(files, lr=1e-4), key(files, seed=0), key(files, seed=1)}) == 4
