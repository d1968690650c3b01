"""Shared by the readers of a user's folder: image files, splits, and all faults in one message."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field

from mlml import labels as lb
from mlml.core.errors import quoted, raise_errors
from mlml.datasets.class_names import name_faults
from mlml.datasets.files.image_files import ImageFiles
from mlml.datasets.files.regular_files import read_file
from mlml.datasets.source import Source
from mlml.datasets.split import validation_split
from mlml.labels.table import Table

State = Literal["absent", "unknown"]
Text = Annotated[str, Field(min_length=1)]
Classes = Annotated[list[Text], Field(min_length=1)]
STATES = {"present": lb.PRESENT, "absent": lb.ABSENT, "unknown": lb.UNKNOWN}
_ROW = re.compile(r"(.*\b)?row (\d+)", re.DOTALL)
_SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation"), "validation"),
    **dict.fromkeys(("test", "testing"), "test"),
}


class RawTable(NamedTuple):
    """The contents of a user's label files, in file order, not yet checked.

    Attributes:
        file: the label file, for messages.
        classes: names of the L classes.
        images: n paths of image files below `root`.
        split: n words, or None where the files name no split.
        labels: int8 [n, L].
        places: n places in the file, "row 7".
        faults: (place, message) of the faults that the reader noticed; their rows may be left out.
        root: the folder that the paths of images start from.
        notes: remarks of the reader for `Source.notes`.
        class_places: where the file names a class first, for messages.
        combine: whether rows with the same image name are combined; not where a wrong name is likelier.
    """

    file: Path
    classes: tuple[str, ...]
    images: Sequence[str]
    split: Sequence[str] | None
    labels: lb.Labels
    places: Sequence[str]
    faults: Sequence[tuple[str, str]]
    root: Path
    notes: tuple[str, ...] = ()
    class_places: Mapping[str, str] = MappingProxyType({})
    combine: bool = True


def below(folder: Path, name: str, option: str) -> Path:
    """``folder/name``, where an option of dataset.yaml holds the name.

    Raises:
        ValueError: the path lies outside of `folder`.
    """
    if Path(name).is_absolute() or not Path(os.path.normpath(folder / name)).is_relative_to(os.path.normpath(folder)):
        raise ValueError(f"images.options.{option}: {name!r} is not allowed; must be a path below {folder}")
    return folder / name


def source(raw: RawTable, upright: bool) -> Source:
    """Check a user's table; returns the data set with rows sorted by image.

    `mlml.datasets.files.image_files` finds the files. Rows with one image name are combined, unless a class is present
    in one and absent in another. Without splits in the files, `mlml.datasets.split` draws a fifth of the rows for
    testing; without validation rows, it draws a fifth of the training rows for validation.

    Raises:
        ValueError: no rows, an image that is missing, outside of `raw.root`, or in rows that contradict each other, an
            unknown split, a class whose name misleads, or `raw.faults`; one line per fault, all together.
    """
    split, faults = _parse_splits(raw)
    found = _find_images(raw, split)
    named = [(raw.class_places.get(name, "classes"), text) for name, text in name_faults(raw.classes)]
    faults += [*named, *raw.faults, *found.faults]
    order = {place: i for i, place in enumerate(raw.places)}

    def position(fault: tuple[str, str]) -> tuple[str, int]:
        row = _ROW.fullmatch(fault[0])
        return (row[1] or "", int(row[2])) if row else ("", order.get(fault[0], -1))

    faults.sort(key=position)
    raise_errors(f"{raw.file}: faults: {len(faults)}", [f"{at}: {text}" for at, text in faults])
    if not raw.images:
        raise ValueError(f"{raw.file}: no images; a data set needs some")
    kept = [i for i in range(len(raw.images)) if i not in found.repeated]
    rows = np.array(sorted(kept, key=raw.images.__getitem__))
    images = tuple(raw.images[i] for i in rows)
    paths = [found.paths[i] for i in rows]
    chosen = np.array([split[i] for i in rows] if split else ["train"] * len(rows), dtype=object)
    if not split:
        chosen[validation_split(len(rows))[1]] = "test"
    if not (chosen == "validation").any():
        train = np.flatnonzero(chosen == "train")
        chosen[train[validation_split(len(train))[1]]] = "validation"
    in_order = len(rows) == len(raw.images) and bool((np.diff(rows) == 1).all())  # a large table is not copied
    table = Table(raw.classes, images, tuple(chosen), found.labels if in_order else found.labels[rows])
    places = tuple(f"{raw.file}, {raw.places[i]}: {raw.images[i]}" for i in rows)
    notes = (*raw.notes, *found.notes)
    return Source(table, lambda row: read_file(raw.root / paths[row]), upright, places, notes, file=raw.file)


def _parse_splits(raw: RawTable) -> tuple[list[str] | None, list[tuple[str, str]]]:
    if raw.split is None:
        return None, []
    split = [_SPLITS.get(word.strip().lower(), "") for word in raw.split]
    rows = zip(raw.places, raw.split, split, strict=True)
    return split, [(place, f"split {quoted(word)} is not train, val or test") for place, word, name in rows if not name]


class _Found(NamedTuple):
    """The image files of a table's rows.

    Attributes:
        paths: below the table's root; "" where there is none.
        labels: int8 [n, L], combined where rows name one image.
        repeated: rows whose labels an earlier row has now.
        faults, notes: as in `RawTable`.
    """

    paths: list[str]
    labels: lb.Labels
    repeated: dict[int, int]
    faults: list[tuple[str, str]]
    notes: list[str]


def _find_images(raw: RawTable, split: list[str] | None) -> _Found:
    files = ImageFiles(raw.root)
    paths, faults = [], []
    labels = raw.labels
    first: dict[str, int] = {}  # row of each file
    repeated: dict[int, int] = {}
    for i, (place, image) in enumerate(zip(raw.places, raw.images, strict=True)):
        try:
            paths.append(files.find(image))
        except ValueError as error:
            paths.append("")
            faults.append((place, f"image {quoted(image)} {error}"))
            continue
        # With links followed: a/../b.jpg and a link to b.jpg are one photograph, which must not be in two splits.
        named, real = files.absolute(paths[-1])
        earlier = first.setdefault(named if _in_dvc_cache(real) else real, i)
        if earlier != i:
            if fault := _contradiction(raw, labels, split, earlier, i):
                faults.append((place, f"image {quoted(image)} {fault}"))
            else:
                labels = labels.copy() if not repeated else labels
                labels[earlier] = np.where(labels[earlier], labels[earlier], labels[i])
                repeated[i] = earlier
        elif not (_in_dvc_cache(real) or files.holds(real)):
            where = f"leads out of {raw.root}, to {real}"
            faults.append((place, f"image {quoted(image)} is a link that {where}; copy the file"))
    return _Found(paths, labels, repeated, faults, [] if faults else _notes(raw, paths, repeated, files.unnamed(first)))


def _contradiction(raw: RawTable, labels: lb.Labels, split: list[str] | None, earlier: int, again: int) -> str:
    """Why two rows of one file cannot be combined, or ""."""
    place = raw.places[earlier]
    if split and split[earlier] != split[again] and split[earlier] and split[again]:
        return f"is in two splits, {split[earlier]} ({place}) and {split[again]}; a photograph belongs in one"
    opposite = np.flatnonzero(labels[earlier] * labels[again] < 0)
    if len(opposite):
        word = {lb.PRESENT: "present", lb.ABSENT: "absent"}
        name, (there, here) = raw.classes[opposite[0]], (word[labels[row, opposite[0]]] for row in (earlier, again))
        return f"stands in {place} too, where class {quoted(name)} is {there}, not {here}; correct or merge the two"
    if raw.combine and raw.images[earlier] == raw.images[again]:
        return ""
    same = np.array_equal(labels[earlier], labels[again])
    name = f", as {quoted(raw.images[earlier])}" if raw.images[earlier] != raw.images[again] else ""
    remedy = "with the same labels; remove one of them" if same else "with other labels; merge the two"
    return f"stands in {place} too{name}, {remedy}"


def _notes(raw: RawTable, paths: list[str], repeated: dict[int, int], unnamed: list[str]) -> list[str]:
    """Remarks on rows that were combined, names that were not literal, and pictures that no row names."""
    notes = []
    if repeated:
        again, earlier = next(iter(repeated.items()))
        both = f"{quoted(raw.images[again])} ({raw.places[earlier]}, {raw.places[again]})"
        notes.append(f"{len(repeated):,} images are listed again, as {both}: their labels are combined")
    renamed = [(image, path) for image, path in zip(raw.images, paths, strict=True) if image != path]
    if renamed:
        pair = " for ".join(map(quoted, renamed[0]))
        notes.append(f"{len(renamed):,} images are not listed under the names of their files, as {pair}")
    if unnamed:
        notes.append(f"{len(unnamed):,} pictures in {raw.root} are not in the labels, as {quoted(unnamed[0])}")
    return notes


def _in_dvc_cache(path: str) -> bool:
    """Whether ``dvc add`` keeps a file's content at `path`; the user's folder then holds a link to it."""
    return Path(path).parts[-4:-2] == ("files", "md5")
