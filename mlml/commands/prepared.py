"""The prepared data set that a grid runs on: what it was prepared from, and its state as a short hash."""

import hashlib
from pathlib import Path
from typing import Any

from mlml.core.params import DATASET, PARAMS, read_sections

_LOCK = Path("dvc.lock")
_LOCK_KEYS = {"schema", "stages", "metas", "datasets"}
_AGAIN = "run `dvc repro prepare`"


def check(data: Path) -> None:
    """Check that the stage prepare has written `data` with the parameters of now.

    That is known of the project's folder data/ from dvc.lock; other folders, or without dvc.lock, are not checked.

    Raises:
        ValueError: it was prepared from another data set or with other parameters, or is not what dvc.lock records.
    """
    if data.resolve() != Path("data").resolve() or not _LOCK.is_file():
        return
    lock, labels = read_sections(_LOCK, _LOCK_KEYS), data / "labels.csv"
    try:
        stage = lock["stages"]["prepare"]
        recorded = next(out["md5"] for out in stage["outs"] if out["path"] == "data/labels.csv")
        parameters: dict[str, dict[str, Any]] = {file: dict(values) for file, values in stage["params"].items()}
        before = parameters["params.yaml"]["dataset"]
    except (LookupError, TypeError, ValueError, AttributeError, StopIteration):
        raise ValueError(f"{_LOCK} does not say how {labels} was prepared: {_AGAIN}") from None
    if hashlib.md5(labels.read_bytes(), usedforsecurity=False).hexdigest() != recorded:
        raise ValueError(
            f"{labels} is not the file that {_LOCK} records: {_AGAIN}, or name a folder with data of your own by --data"
        )
    now = read_sections(Path("params.yaml"), PARAMS)["dataset"]
    if now != before:
        raise ValueError(f"data/ was prepared from {before}, and params.yaml names {now}: {_AGAIN}")
    for file, values in parameters.items():
        sections = read_sections(Path(file), PARAMS if file == "params.yaml" else DATASET)
        for key in (key for key, value in values.items() if sections.get(key) != value):
            raise ValueError(f"data/ was prepared with another `{key}` than {file} has now: {_AGAIN}")


def state(data: Path) -> str:
    """The first digits of a hash that changes with any label, picture, or the image size.

    All of it is read: a picture can change without the size of the file that it is kept in, and DVC sets the times of
    files as it likes.
    """
    digest = hashlib.sha256()
    for path in _files(data):
        digest.update(f"{path.name} {path.stat().st_size}\n".encode())
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:7]


def stamps(data: Path) -> list[tuple[str, int, int, int]]:
    """What shows at once that a file was written or replaced since: names, inodes, sizes and times."""
    found = [(path.name, path.stat()) for path in _files(data)]
    return [(name, status.st_ino, status.st_size, status.st_mtime_ns) for name, status in found]


def _files(data: Path) -> list[Path]:
    # Names with a dot are of files that are being written, or were when the stage was killed.
    return [path for path in [data / "labels.csv", *sorted((data / "images").glob("[!.]*"))] if path.is_file()]
