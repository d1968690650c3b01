"""What all readers of a user's own folder share: its image files, the split, and all faults said together."""

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


class Given(NamedTuple):
    """What the user's label files say, in their own order, not yet checked.

    Attributes:
        file: the label file, for messages.
        classes: names of the L classes.
        images: n paths of image files below `root`.
        split: n words, or None where the files name no split.
        labels: int8 [n, L].
        places: n places in the file, "row 7".
        faults: what is already known to be wrong: (place, what). Rows with a fault may be in `images` or not.
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
    """``folder/name``, which an option of the data set's file speaks of.

    Raises:
        ValueError: it lies outside of the folder.
    """
    if Path(name).is_absolute() or not Path(os.path.normpath(folder / name)).is_relative_to(os.path.normpath(folder)):
        raise ValueError(f"images.options.{option}: {name!r} is not allowed; must be a path below {folder}")
    return folder / name


def source(given: Given, upright: bool) -> Source:
    """The data set of a user's files: rows sorted by image, each with a split.

    Where no split is given, the last fifth of a fixed permutation is for testing; where no row is for validation, a
    fifth of the training rows becomes it. Both by `mlml.datasets.split`.

    Raises:
        ValueError: no rows, an image that is missing, outside of `given.root` or there twice, a word that is no
            split, and what `given.faults` says; one line a fault, all together.
    """
    split, faults = _words(given)
    faults += [*given.faults, *_image_faults(given, split)]
    order = {place: i for i, place in enumerate(given.places)}
    faults.sort(key=lambda fault: order.get(fault[0], -1))
    raise_errors(f"{given.file}: faults: {len(faults)}", [f"{place}: {text}" for place, text in faults])
    if not given.images:
        raise ValueError(f"{given.file}: no images; a data set needs some")
    rows = np.array(sorted(range(len(given.images)), key=given.images.__getitem__))
    images = tuple(given.images[i] for i in rows)
    chosen = np.array([split[i] for i in rows], dtype=object) if split else _drawn(len(rows))
    if not (chosen == "validation").any():
        train = np.flatnonzero(chosen == "train")
        chosen[train[validation_split(len(train))[1]]] = "validation"
    in_order = bool((np.diff(rows) == 1).all())  # a large table is not copied
    table = Table(given.classes, images, tuple(chosen), given.labels if in_order else given.labels[rows])
    places = tuple(f"{given.file}, {given.places[i]}: {given.images[i]}" for i in rows)
    return Source(table, lambda row: (given.root / images[row]).read_bytes(), upright, places)


def _words(given: Given) -> tuple[list[str] | None, list[tuple[str, str]]]:
    if given.split is None:
        return None, []
    split = [_SPLITS.get(word.strip().lower(), "") for word in given.split]
    rows = zip(given.places, given.split, split, strict=True)
    return split, [(place, f"split {word!r} is not train, val or test") for place, word, known in rows if not known]


def _drawn(n: int) -> np.ndarray:
    split = np.array(["train"] * n, dtype=object)
    split[validation_split(n)[1]] = "test"
    return split


def _image_faults(given: Given, split: list[str] | None) -> list[tuple[str, str]]:
    found = []
    root = given.root.resolve()
    first: dict[Path, int] = {}
    listed = cache(_names_by_form)
    for i, (place, image) in enumerate(zip(given.places, given.images, strict=True)):
        name = image.replace("\0", "\ufffd")  # no file name has a NUL; asking for one is another error
        path, named = given.root / name, Path(os.path.normpath(root / name))
        real = Path(os.path.realpath(path))  # unlike resolve(), takes links that lead in a circle
        in_cache = _in_dvc_cache(real)
        # Links followed: a/../b.jpg, and a link to b.jpg, are one photograph, which must not be in two splits.
        earlier = first.setdefault(named if in_cache else real, i)
        if not named.is_relative_to(root):
            found.append((place, f"image {image!r} lies outside of {given.root}; put it into the folder"))
        elif earlier != i:
            found.append((place, f"image {image!r} {_twice(given, split, earlier, i)}"))
        elif not in_cache and not real.is_relative_to(root):
            found.append((place, f"image {image!r} is a link that leads out of {given.root}, to {real}; copy the file"))
        elif not os.path.isfile(real):  # unlike is_file(), takes a name that is too long
            found.append((place, f"image {image!r} is missing{_hint(path, listed)}"))
    return found


def _twice(given: Given, split: list[str] | None, earlier: int, again: int) -> str:
    place = given.places[earlier]
    if split and split[earlier] != split[again] and split[earlier] and split[again]:
        return f"is in two splits, {split[earlier]} ({place}) and {split[again]}; a photograph belongs in one"
    same = np.array_equal(given.labels[earlier], given.labels[again])
    return f"stands in {place} too, with {'the same' if same else 'other'} labels; remove one of them"


def _in_dvc_cache(path: Path) -> bool:
    """Whether this is where ``dvc add`` keeps a file's content: it may leave a link in the folder."""
    return path.parts[-4:-2] == ("files", "md5")


def _hint(path: Path, listed: Callable[[Path], dict[str, str]]) -> str:
    """Why a file may seem to be missing."""
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
    """The names in a folder by their normal form, and where that is free by the same in lower case."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return {**{_nfc(name).casefold(): name for name in names}, **{_nfc(name): name for name in names}}


def _nfc(name: str) -> str:
    return unicodedata.normalize("NFC", name)
