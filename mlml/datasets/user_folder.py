"""Shared by the readers of a user's folder: image files, splits, and all faults in one message."""

import os
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field

from mlml import labels as lb
from mlml.core.errors import raise_errors
from mlml.datasets.source import Source
from mlml.datasets.split import validation_split
from mlml.labels.table import Table

State = Literal["absent", "unknown"]
Text = Annotated[str, Field(min_length=1)]
Classes = Annotated[list[Text], Field(min_length=1)]
STATES = {"present": lb.PRESENT, "absent": lb.ABSENT, "unknown": lb.UNKNOWN}
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
    """

    file: Path
    classes: tuple[str, ...]
    images: Sequence[str]
    split: Sequence[str] | None
    labels: lb.Labels
    places: Sequence[str]
    faults: Sequence[tuple[str, str]]
    root: Path


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

    Without splits in the files, `mlml.datasets.split` draws a fifth of the rows for testing; without validation rows,
    it draws a fifth of the training rows for validation.

    Raises:
        ValueError: no rows, an image that is missing, duplicate or outside of `raw.root`, an unknown split, or
            `raw.faults`; one line per fault, all together.
    """
    split, faults = _parse_splits(raw)
    faults += [*raw.faults, *_image_faults(raw, split)]
    order = {place: i for i, place in enumerate(raw.places)}
    faults.sort(key=lambda fault: order.get(fault[0], -1))
    raise_errors(f"{raw.file}: faults: {len(faults)}", [f"{place}: {text}" for place, text in faults])
    if not raw.images:
        raise ValueError(f"{raw.file}: no images; a data set needs some")
    rows = np.array(sorted(range(len(raw.images)), key=raw.images.__getitem__))
    images = tuple(raw.images[i] for i in rows)
    chosen = np.array([split[i] for i in rows], dtype=object) if split else _draw_test(len(rows))
    if not (chosen == "validation").any():
        train = np.flatnonzero(chosen == "train")
        chosen[train[validation_split(len(train))[1]]] = "validation"
    in_order = bool((np.diff(rows) == 1).all())  # a large table is not copied
    table = Table(raw.classes, images, tuple(chosen), raw.labels if in_order else raw.labels[rows])
    places = tuple(f"{raw.file}, {raw.places[i]}: {raw.images[i]}" for i in rows)
    return Source(table, lambda row: (raw.root / images[row]).read_bytes(), upright, places, raw.file)


def _parse_splits(raw: RawTable) -> tuple[list[str] | None, list[tuple[str, str]]]:
    if raw.split is None:
        return None, []
    split = [_SPLITS.get(word.strip().lower(), "") for word in raw.split]
    rows = zip(raw.places, raw.split, split, strict=True)
    return split, [(place, f"split {word!r} is not train, val or test") for place, word, name in rows if not name]


def _draw_test(n: int) -> np.ndarray:
    split = np.array(["train"] * n, dtype=object)
    split[validation_split(n)[1]] = "test"
    return split


def _image_faults(raw: RawTable, split: list[str] | None) -> list[tuple[str, str]]:
    faults = []
    root = raw.root.resolve()
    first: dict[Path, int] = {}
    listed = cache(_names_by_form)
    for i, (place, image) in enumerate(zip(raw.places, raw.images, strict=True)):
        name = image.replace("\0", "\ufffd")  # a NUL in a path raises another error
        path, named = raw.root / name, Path(os.path.normpath(root / name))
        real = Path(os.path.realpath(path))  # unlike resolve(), accepts circular links
        in_cache = _in_dvc_cache(real)
        # With links followed: a/../b.jpg and a link to b.jpg are one photograph, which must not be in two splits.
        earlier = first.setdefault(named if in_cache else real, i)
        if not named.is_relative_to(root):
            faults.append((place, f"image {image!r} lies outside of {raw.root}; put it into the folder"))
        elif earlier != i:
            faults.append((place, f"image {image!r} {_twice(raw, split, earlier, i)}"))
        elif not in_cache and not real.is_relative_to(root):
            faults.append((place, f"image {image!r} is a link that leads out of {raw.root}, to {real}; copy the file"))
        elif not os.path.isfile(real):  # unlike is_file(), accepts a name that is too long
            faults.append((place, f"image {image!r} is missing{_hint(path, listed)}"))
    return faults


def _twice(raw: RawTable, split: list[str] | None, earlier: int, again: int) -> str:
    place = raw.places[earlier]
    if split and split[earlier] != split[again] and split[earlier] and split[again]:
        return f"is in two splits, {split[earlier]} ({place}) and {split[again]}; a photograph belongs in one"
    same = np.array_equal(raw.labels[earlier], raw.labels[again])
    return f"stands in {place} too, with {'the same' if same else 'other'} labels; remove one of them"


def _in_dvc_cache(path: Path) -> bool:
    """Whether ``dvc add`` keeps a file's content at `path`; the user's folder then holds a link to it."""
    return path.parts[-4:-2] == ("files", "md5")


def _hint(path: Path, listed: Callable[[Path], dict[str, str]]) -> str:
    """A likely reason why the file at `path` is missing, for a message."""
    if os.path.isdir(path) or os.path.islink(path):
        return ": it is a folder" if os.path.isdir(path) else ": it is a link that leads nowhere"
    other = path.parent / path.name.replace("\\", "/")
    if "\\" in path.name and os.path.isfile(other):
        return "; write its path with / instead of \\"
    wanted = _nfc(path.name)
    names = listed(path.parent)
    name = names.get(wanted) or names.get(wanted.casefold())
    if name is None:
        return ""
    how = "Unicode form" if _nfc(name) == wanted else "upper and lower case"
    return f"; there is {name!r}, which differs in {how}"


def _names_by_form(folder: Path) -> dict[str, str]:
    """The names in a folder by their normal form, and where it is free by their case-folded normal form."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return {**{_nfc(name).casefold(): name for name in names}, **{_nfc(name): name for name in names}}


def _nfc(name: str) -> str:
    return unicodedata.normalize("NFC", name)
