"""A user's own images: a folder with labels.csv and the image files it names.

``labels.csv`` has a column ``image`` (path below the folder), a column ``split`` (train, val or validation,
test) and one column a class; a cell is 1, 0 or blank (unknown). Where no row is for validation, a part of the
training rows becomes it, by `mlml.datasets.split`.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from mlml import labels as lb
from mlml.datasets.source import Source
from mlml.datasets.split import validation_split
from mlml.faults import raise_faults
from mlml.table import SPLITS, Table, read_cells

_CELLS = {"1": lb.PRESENT, "0": lb.ABSENT, "": lb.UNKNOWN, "1.0": lb.PRESENT, "0.0": lb.ABSENT, "nan": lb.UNKNOWN}


def read(folder: Path, archives: Path) -> Source:
    """Read ``labels.csv`` in `folder`; rows are sorted by image.

    Raises:
        ValueError: the file is missing or wrong; one line a fault, all faults together.
    """
    path = folder / "labels.csv"
    if not path.is_file():
        raise ValueError(f"{path} is missing; it has the columns image, split and one a class")
    rows = {number: row for number, row in enumerate(read_cells(path), 1) if row}
    header = [name.strip() for name in rows.pop(1, [])]
    twice = [column for column in header if not column or header.count(column) > 1]
    if twice:
        raise ValueError(f"{path}: each column must have a name of its own, not {twice[0]!r}")
    frame = pd.DataFrame(list(rows.values()), index=list(rows), columns=header, dtype=str)
    absent = [column for column in ("image", "split") if column not in frame]
    if absent or frame.shape[1] < 3 or not len(frame):
        raise ValueError(
            f"{path}: {len(frame)} rows with the columns {', '.join(map(repr, header[:5]))}; "
            "it must have rows, and the columns image, split and one a class"
        )
    frame["split"] = frame["split"].str.strip().replace("val", "validation")
    classes = tuple(column for column in frame.columns if column not in ("image", "split"))
    cells = frame[list(classes)].apply(lambda column: column.str.strip().str.lower())
    labels = cells.apply(lambda column: column.map(_CELLS)).to_numpy(dtype=float)
    faults = _faults(folder, frame, labels, classes)
    raise_faults(f"{path}: {len(faults)} faults", faults)
    order = np.argsort(frame["image"].to_numpy(dtype=object))
    split = frame["split"].to_numpy(dtype=object)[order]
    if not (split == "validation").any():
        train = np.flatnonzero(split == "train")
        split[train[validation_split(len(train))[1]]] = "validation"
    images = tuple(frame["image"].iloc[order])
    table = Table(classes, images, tuple(split), labels.astype(np.int8)[order])
    return Source(table, lambda row: Image.open(folder / images[row]))


def _faults(folder: Path, frame: pd.DataFrame, labels: np.ndarray, classes: tuple[str, ...]) -> list[str]:
    """What is wrong with the rows, one line a fault. Row numbers count the header, as an editor does."""
    found: list[tuple[int, str]] = []
    for row, column in np.argwhere(np.isnan(labels)):
        cell = frame[classes[column]].iloc[row]
        found.append((int(row), f"class {classes[column]!r}: {cell!r} is not 1, 0 or blank"))
    for row in np.flatnonzero(~frame["split"].isin(SPLITS)):
        found.append((int(row), f"split {frame['split'].iloc[row]!r} is not train, val or test"))
    root = folder.resolve()
    rows: dict[Path, int] = {}
    for row, image in enumerate(frame["image"]):
        # Resolved: a/../b.jpg and b.jpg are one photograph, which must not be in two splits.
        file = (folder / image.replace("\0", "\ufffd")).resolve()
        if not file.is_relative_to(root):
            found.append((row, f"image {image!r} lies outside of {folder}"))
        elif rows.setdefault(file, row) != row:
            found.append((row, f"image {image!r} stands in row {frame.index[rows[file]]} too"))
        elif not file.is_file():
            found.append((row, f"image {image!r} is missing"))
    return [f"row {frame.index[row]}: {text}" for row, text in sorted(found, key=lambda fault: fault[0])]
