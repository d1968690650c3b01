"""What data/ was prepared from, and the hash that tells its states apart."""

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
import yaml

from mlml.commands import prepared

IMAGES = {"reader": "folder", "image_size": 32}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose data/ was prepared from the data set `mine`, by DVC."""
    monkeypatch.chdir(tmp_path)
    for folder in ("data/images", "datasets/mine", "datasets/other"):
        (tmp_path / folder).mkdir(parents=True)
    labels = b"image,split,cat\na,train,1\n"
    Path("data/labels.csv").write_bytes(labels)
    np.save("data/images/rows.npy", np.zeros((1, 8, 8, 3), np.uint8))
    values = {"params.yaml": {"dataset": "mine", "prepare": {"image_size": None}}}
    values["datasets/mine/dataset.yaml"] = {"images": IMAGES}
    outs = [{"path": "data/images"}, {"path": "data/labels.csv", "md5": hashlib.md5(labels).hexdigest()}]
    write("dvc.lock", {"schema": "2.0", "stages": {"prepare": {"params": values, "outs": outs}}})
    write("params.yaml", {**values["params.yaml"], "seed": 0})
    for name in ("mine", "other"):
        write(f"datasets/{name}/dataset.yaml", {"archives": [], "images": IMAGES})
    return tmp_path


def write(file: str, values: object) -> None:
    Path(file).write_text(yaml.safe_dump(values))


@pytest.mark.parametrize(
    ("file", "values", "line"),
    [
        (
            "params.yaml",
            {"dataset": "other"},
            "data/ was prepared from mine, and params.yaml names other: run `dvc repro",
        ),
        (
            "params.yaml",
            {"dataset": "mine", "prepare": {"image_size": 8}},
            "another `prepare` than params.yaml has now",
        ),
        ("datasets/mine/dataset.yaml", {"images": {}}, "another `images` than datasets/mine/dataset.yaml has now"),
        ("data/labels.csv", "image,split,cat", "data/labels.csv is not the file that dvc.lock records: run `dvc repro"),
        ("dvc.lock", {"stages": {"prepare": {"outs": []}}}, "dvc.lock does not say how "),
        ("dvc.lock", {"stages": [1]}, "dvc.lock does not say how "),
    ],
)
def test_data_prepared_from_something_else(project: Path, file: str, values: object, line: str) -> None:
    prepared.check(Path("data"))
    write(file, values)
    with pytest.raises(ValueError) as error:
        prepared.check(project / "data")
    assert line in str(error.value)
    prepared.check(Path("elsewhere"))
    os.remove("dvc.lock")
    prepared.check(Path("data"))


def test_a_state_is_another_after_any_change(project: Path) -> None:
    data, found = project / "data", []
    for change in (
        lambda: None,
        lambda: np.save("data/images/rows.npy", np.ones((1, 8, 8, 3), np.uint8)),  # of the same size
        lambda: np.save("data/images/rows.npy", np.ones((1, 4, 16, 3), np.uint8)),
        lambda: Path("data/labels.csv").write_text("image,split,cat\na,train,0\n"),
        lambda: Path("data/images/rows.json").write_text("{}"),
    ):
        before = prepared.stamps(data)
        change()
        found.append((prepared.state(data), prepared.stamps(data) == before))
    assert len({state for state, _ in found}) == len(found)
    assert [same for _, same in found] == [True, False, False, False, False]
    Path("data/images/.rows.npy").touch()  # half written when the stage was killed
    os.utime("data/labels.csv", (0, 0))  # as DVC may
    assert prepared.state(data) == found[-1][0]
