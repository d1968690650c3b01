"""Whatever is written onto a full disk, the error names the file, and nothing half-written is left."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from mlml import methods, plots
from mlml.core.files import atomic_write, write_json
from mlml.images.shard import write_index
from mlml.labels import table
from mlml.model import weights
from mlml.model.classifier import Classifier
from mlml.training.history import Epoch, History
from mlml.training.trajectories import Recorder


def recorder() -> Recorder:
    train = methods.TrainLabels(torch.ones(500, 20, dtype=torch.int8), None, 1, True)
    method = methods.build("an", train, {})
    made = Recorder(500, 20, 0, method, torch.device("cpu"))
    made.end_epoch(method)
    return made


def write_shard_index(path: Path) -> None:
    with atomic_write(path) as part:
        write_index(part, np.ones(9, np.int64), 8, False)


WRITERS: dict[str, Callable[[Path], object]] = {
    "weights": lambda path: weights.save(Classifier("test_resnet", 2), path, {}),
    "history": lambda path: History(path)(Epoch(1, 0.5, 50.0)),
    "trajectories": lambda path: recorder().save(path),
    "table": lambda path: table.write(table.Table(("a",), ("b",), ("train",), np.ones((1, 1), np.int8)), path),
    "index": write_shard_index,
    "json": lambda path: write_json(path, {"a": 1}),
    **{form: lambda path: plots.save(Figure(), path, 100) for form in ("png", "svg", "pdf")},
}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
@pytest.mark.parametrize("kind", WRITERS)
def test_a_full_disk_names_the_file_and_leaves_nothing(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"it.{kind}"
    part = tmp_path / f".it.{kind}"
    for name in (part, part.with_name(f"{part.name}.npz")):  # NumPy adds its suffix
        name.symlink_to("/dev/full")
    with pytest.raises(OSError) as error:
        WRITERS[kind](path)
    assert str(error.value) == f"[Errno {errno.ENOSPC}] {os.strerror(errno.ENOSPC)}: '{path}'"
    assert not path.exists() and not part.is_symlink()
