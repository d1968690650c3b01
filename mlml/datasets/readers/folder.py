"""A user's images with a table of labels: one row per image, one column per class.

``labels.csv`` has a column ``image`` (path below the folder), an optional column ``split`` (train, val, test), and one
column per class; a cell is 1, 0 or blank. Some tables also have -1. Authors then differ in what it and 0 mean, so the
options must say. There may be a table for each split, as in Roboflow's export.
"""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mlml import labels as lb
from mlml.core.errors import quoted
from mlml.datasets.annotations.split_paths import SplitPaths, by_split, table_starts
from mlml.datasets.class_names import check_option
from mlml.datasets.source import Source
from mlml.datasets.tables import label_cells
from mlml.datasets.tables.csv_table import Sheet, open_sheet
from mlml.datasets.tables.image_rows import IMAGE, SPLIT, ImageRows, Template
from mlml.datasets.tables.label_columns import HEADER, bad_cells, class_columns, judge, parse, without
from mlml.datasets.user_folder import Classes, RawTable, State, Text, source

_AGAIN = "an image has one row: merge them"


class _Options(NamedTuple):
    """Options of `read` that are about each table."""

    image_column: str
    image_path: str
    classes: list[str] | None
    ignore: list[str]
    zero: State | None
    minus_one: State | None
    blank: State


def read(
    folder: Path,
    archives: Path,
    *,
    labels: SplitPaths = "labels.csv",
    image_column: Text = IMAGE,
    image_path: Template = "{}",
    classes: Classes | None = None,
    ignore: Classes | None = None,
    zero: State | None = None,
    minus_one: State | None = None,
    blank: State = "unknown",
    upright: bool = True,
) -> Source:
    """Read a table of labels in `folder`; rows are sorted by image.

    Args:
        folder: the data set's folder.
        archives: unused.
        labels: the table below `folder`, or one for each split, whose names of images start from the table's folder if
            pictures lie there or below it.
        image_column: the column that names the images.
        image_path: the path of an image's file below `folder`, with ``{}`` for the cell of that column.
        classes: the columns that are classes, in the order wanted; None: all but image, split and `ignore`.
        ignore: columns that are no classes.
        zero, minus_one: meaning of the cells 0 and -1; without -1, 0 means absent.
        blank: meaning of an empty cell.
        upright: whether to apply the EXIF orientation.

    Raises:
        ValueError: a file is missing or wrong, or the tables' columns differ; one line per fault, all faults together.
    """
    check_option(classes or [], "classes")
    check_option(ignore or [], "ignore")
    name, uses = Counter([image_column, SPLIT, *(classes or []), *(ignore or [])]).most_common(1)[0]
    if uses > 1:
        raise ValueError(f"images.options: {name!r} is more than one of image_column, {SPLIT}, classes and ignore")
    paths = by_split(folder, labels, "labels")
    starts = table_starts(folder, paths)
    options = _Options(image_column, image_path, classes, ignore or [], zero, minus_one, blank)
    tables: dict[str, _Table] = {}
    for key, path in paths.items():
        with open_sheet(path, [image_column], ["image_column"]) as sheet:
            names = class_columns(sheet, image_column, classes, options.ignore)
            if key:
                _check_same(sheet, names, next(iter(tables.values()), None))
            tables[key] = _read_table(sheet, names, starts[key], options, folder)
    empty = set.intersection(*(table.empty for table in tables.values()))
    notes = []
    if empty and classes is None:
        columns = [name for name in names if name in empty]
        shown = quoted(", ".join(columns))
        notes = [f"columns without a label: {shown}; if they are no classes, set {without(columns, options.ignore)}"]
    raw = tables[""].raw if "" in tables else _joined(folder, paths, tables)
    return source(raw._replace(notes=tuple(f"{raw.file}: {note}" for note in notes)), upright)


class _Table(NamedTuple):
    """A table: its columns that are classes or may be, those of them that are blank throughout, and the rest."""

    names: list[str]
    empty: set[str]
    raw: RawTable


def _check_same(sheet: Sheet, names: list[str], first: _Table | None) -> None:
    if SPLIT in sheet.columns:
        said = "images.options.labels says the split, too; remove one of the two"
        raise ValueError(f"{sheet.path} has a column {SPLIT!r}, but {said}")
    if first and (other := set(names) ^ set(first.names)):
        name = min(other)
        differs = f"{'has' if name in names else 'lacks'} the column {quoted(name)}, unlike {first.raw.file}"
        raise ValueError(f"{sheet.path} {differs}; they must have the same, or set images.options.classes")


def _read_table(sheet: Sheet, names: list[str], start: str, options: _Options, folder: Path) -> _Table:
    rows = ImageRows(sheet, options.image_column, start + options.image_path, _AGAIN)
    cells = parse(sheet, rows, names, all_columns=options.classes is None)
    everything = list(range(len(cells.names)))
    kept, faults = judge(cells, options.ignore) if options.classes is None else (everything, bad_cells(cells))
    matrix = cells.codes if len(kept) == len(everything) else cells.codes[:, kept]
    classes = tuple(cells.names[i] for i in kept)
    if (options.zero is None or options.minus_one is None) and lb.count(matrix, label_cells.MINUS_ONE, axis=0).any():
        row, column = lb.first(matrix == label_cells.MINUS_ONE)
        faults.append((rows.places[row], f"class {quoted(classes[column])}: {label_cells.ASK}"))
    filled = cells.filled.tolist()
    empty = {cells.names[i] for i in kept if not filled[i]}
    meaning = label_cells.meaning(options.zero, options.minus_one, options.blank)
    for part in lb.chunks(matrix):  # in place
        part[:] = meaning[part]
    raw = RawTable(
        file=sheet.path,
        classes=classes,
        images=rows.images,
        split=rows.split if rows.has_split else None,
        labels=matrix,
        places=rows.places,
        faults=[*rows.faults, *faults],
        root=folder,
        class_places=dict.fromkeys(classes, HEADER),
    )
    return _Table(names, empty, raw)


def _joined(folder: Path, paths: dict[str, Path], tables: dict[str, _Table]) -> RawTable:
    """The tables of the splits as one. They have the same columns; some are left out where they have faults."""
    raws = [table.raw for table in tables.values()]
    classes = tuple(name for name in raws[0].classes if all(name in raw.classes for raw in raws))
    files = [str(paths[key].relative_to(folder)) for key in tables]
    each = list(zip(files, raws, strict=True))
    return RawTable(
        file=folder,
        classes=classes,
        images=[image for raw in raws for image in raw.images],
        split=[key for key, table in tables.items() for _ in table.raw.images],
        labels=np.concatenate([raw.labels[:, [raw.classes.index(name) for name in classes]] for raw in raws]),
        places=[f"{file}, {place}" for file, raw in each for place in raw.places],
        faults=[(f"{file}, {place}", text) for file, raw in each for place, text in raw.faults],
        root=folder,
        class_places=dict.fromkeys(classes, f"{files[0]}, {HEADER}"),
    )
