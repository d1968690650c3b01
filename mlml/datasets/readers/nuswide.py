"""NUS-WIDE (Chua et al., CIVR 2009), 81 classes: published label lists, and photographs that a user brings.

Two forms of the lists are supported. `nus_wid_data.csv` of Ridnik et al. (ASL, ICCV 2021) has the columns filepath,
label (a list of class names) and split_name. The .npy files of Cole et al. (CVPR 2021) hold paths and 0/1 labels, a
column per class, without class names, which are assumed to be in the official order. The train images are split into
training and validation images, the val images are the test images.
"""

import ast
import logging
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np

from mlml import labels as lb
from mlml.core.errors import quoted
from mlml.datasets.files.regular_files import kind
from mlml.datasets.source import Source
from mlml.datasets.tables.csv_table import open_sheet
from mlml.datasets.user_folder import RawTable, below, source

logger = logging.getLogger(__name__)

Form = Literal["csv", "npy"]
CSV = "nus_wid_data.csv"
COLUMNS = ("filepath", "label", "split_name")
NPY = {part: (f"formatted_{part}_images.npy", f"formatted_{part}_labels.npy") for part in ("train", "val")}
CONCEPTS = "Concepts81.txt"
_SPLITS = {"train": "train", "val": "test"}
_OFFICIAL = """
airport animal beach bear birds boats book bridge buildings cars castle cat cityscape clouds computer coral cow dancing
dog earthquake elk fire fish flags flowers food fox frost garden glacier grass harbor horses house lake leaf map
military moon mountain nighttime ocean person plane plants police protest railroad rainbow reflection road rocks
running sand sign sky snow soccer sports statue street sun sunset surf swimmers tattoo temple tiger tower town toy
train tree valley vehicle water waterfall wedding whales window zebra
"""
CLASSES = tuple(_OFFICIAL.split())  # in the order of the official Concepts81.txt
_KINDS = {"text": "U", "numbers": "biuf"}  # of NumPy's dtypes
_COLUMN = {name: i for i, name in enumerate(CLASSES)}


def read(
    folder: Path, archives: Path, *, labels: Form | None = None, images: str = "images", keep_unlabelled: bool = True
) -> Source:
    """Read the label lists in `folder`; rows are sorted by image.

    Args:
        folder: the data set's folder.
        archives: unused.
        labels: the form of the lists; None: the one that exists.
        images: the folder of the photographs, below `folder`. A leading ``images/`` of a path in the lists means it.
        keep_unlabelled: whether images without any label are kept, with all classes absent. The numbers of Cole et al.
            include them (33,410 of 150,000 training images), those of Ridnik et al. do not.

    Raises:
        ValueError: a file is missing or wrong; one line per fault, all faults together.
    """
    root = below(folder, images, "images")
    form = _choose_form(folder, labels)
    if not root.is_dir():
        raise ValueError(f"{root} is missing; it is the folder of the photographs, see {folder / 'dataset.yaml'}")
    raw = _from_csv(folder, root) if form == "csv" else _from_npy(folder, root)
    raw = raw._replace(images=[path.replace("\\", "/").removeprefix("images/") for path in raw.images])
    checked = source(raw if raw.faults else _filter_unlabelled(raw, keep_unlabelled), upright=False)
    return checked._replace(published=True)


def _choose_form(folder: Path, chosen: Form | None) -> str:
    needed = {"csv": [CSV], "npy": [name for pair in NPY.values() for name in pair]}
    missing = {form: [name for name in names if not (folder / name).is_file()] for form, names in needed.items()}
    for name in {*chain(*missing.values()), CONCEPTS}:
        if what := kind(folder / name):
            raise ValueError(f"{folder / name} is {what}, not a file")
    forms = [form for form in needed if not missing[form] and chosen in (None, form)]
    if len(forms) > 1:
        raise ValueError(f"{folder} has {CSV} and the .npy files; say csv or npy in images.options.labels")
    if not forms:
        lack = " or ".join(", ".join(missing[form]) for form in needed if chosen in (None, form))
        raise ValueError(f"{folder}: no label lists, {lack} missing; {folder / 'dataset.yaml'} says where to get them")
    return forms[0]


def _from_csv(folder: Path, root: Path) -> RawTable:
    images, split, places, faults = [], [], [], []
    labels = bytearray()
    with open_sheet(folder / CSV, COLUMNS) as sheet:
        at = [sheet.columns.index(name) for name in COLUMNS]
        for number, cells in sheet.rows:
            place = f"row {number}"
            if len(cells) != len(sheet.columns):
                faults.append((place, f"{len(cells)} cells, the header has {len(sheet.columns)}"))
                continue
            image, names, word = (cells[i].strip() for i in at)
            row, errors = _labels(names)
            if word not in _SPLITS:
                errors.append(f"split_name {quoted(word)} is not train or val")
            faults += [(place, text) for text in errors]
            labels += row.tobytes()
            images.append(image)
            split.append(_SPLITS.get(word, "train"))
            places.append(place)
    matrix = np.frombuffer(labels, np.int8).reshape(len(images), len(CLASSES))
    return RawTable(folder / CSV, CLASSES, images, split, matrix, places, faults, root)


def _labels(cell: str) -> tuple[lb.Labels, list[str]]:
    """The labels int8 [81] of a list of names such as "['clouds', 'sky']", and its faults."""
    row = np.full(len(CLASSES), lb.ABSENT, np.int8)
    try:
        names = ast.literal_eval(cell)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return row, [f"label {quoted(cell)} is no list of names such as \"['clouds', 'sky']\""]
    row[[_COLUMN[name] for name in names if name in _COLUMN]] = lb.PRESENT
    return row, [f"label {quoted(name)} is none of the {len(CLASSES)} classes" for name in names if name not in _COLUMN]


def _from_npy(folder: Path, root: Path) -> RawTable:
    images, split, places, faults, parts = [], [], [], [], []
    for part, (names_file, labels_file) in NPY.items():
        names, values = _load(folder / names_file, "text", 1), _load(folder / labels_file, "numbers", 2)
        if values.shape != (len(names), len(CLASSES)):
            needed = f"[{len(names)}, {len(CLASSES)}]: a row for each of {names_file}, a column for each class"
            raise ValueError(f"{folder / labels_file} is {list(values.shape)}, not {needed}")
        bad = (values != 0) & (values != 1)
        for row in np.flatnonzero(bad.any(1)):
            text = f"a label in {labels_file} is {values[row, bad[row].argmax()]}, not 0 or 1"
            faults.append((f"{names_file}[{row}]", text))
        images += names.tolist()
        places += [f"{names_file}[{row}]" for row in range(len(names))]
        split += [_SPLITS[part]] * len(names)
        parts.append(np.where(values == 1, lb.PRESENT, lb.ABSENT).astype(np.int8))
    return RawTable(folder, _concepts(folder / CONCEPTS), images, split, np.concatenate(parts), places, faults, root)


def _load(path: Path, kind: str, dimensions: int) -> np.ndarray:
    """Load "text" or "numbers" (bool, integers or floats) from a .npy file, without Python objects, which run code."""
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, SyntaxError, MemoryError) as error:
        if "allow_pickle" in str(error) and path.read_bytes()[:6] == b"\x93NUMPY":
            remedy = "np.save(path, np.array(np.load(path, allow_pickle=True).tolist()))"
            raise ValueError(
                f"{path} holds Python objects, which may run code and are not read; "
                f"if you trust the file, save it anew as {kind}: {remedy}"
            ) from None
        raise ValueError(f"{path} is no .npy file that can be read; bring it again") from None
    content = f"{array.dtype} {list(array.shape)}" if isinstance(array, np.ndarray) else "several arrays"
    if not isinstance(array, np.ndarray) or array.dtype.kind not in _KINDS[kind] or array.ndim != dimensions:
        raise ValueError(f"{path} holds {content}, not {kind} in {dimensions} dimension{'s' if dimensions > 1 else ''}")
    return array


def _concepts(path: Path) -> tuple[str, ...]:
    """The classes in column order: that of the official list if the folder has it."""
    names = tuple(path.read_text("utf-8-sig", "replace").split()) if path.is_file() else CLASSES
    if sorted(names) != sorted(CLASSES):
        raise ValueError(f"{path} has {len(names)} names that are not the {len(CLASSES)} classes, a line each")
    return names


def _filter_unlabelled(raw: RawTable, keep: bool) -> RawTable:
    """Report the number of images without any label; drop them unless `keep`."""
    empty = lb.count(raw.labels, lb.PRESENT, axis=1) == 0
    words = raw.split or []
    for part, word in _SPLITS.items():
        of = np.array(words) == word
        of_them = f"{(of & empty).sum():,} of {of.sum():,} {part} images"
        logger.warning(f"nuswide: {of_them} have no label; {'kept' if keep else 'left out'}")
    if keep or not empty.any():
        return raw
    rows = np.flatnonzero(~empty).tolist()
    images, split, places = ([texts[i] for i in rows] for texts in (raw.images, words, raw.places))
    return raw._replace(images=images, split=split, places=places, labels=raw.labels[rows])
