"""A user's images with an XML file each in the format of Pascal VOC, as labelling tools write it.

A class is present in an image that has an object of it. The files do not tell whether other classes are absent or
unknown, so an option must.
"""

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Literal, NamedTuple

import numpy as np

from mlml import labels as lb
from mlml.core.errors import quoted
from mlml.datasets.annotations.split_paths import SplitPaths, by_split, image_folders
from mlml.datasets.annotations.voc import parse
from mlml.datasets.class_names import check_option
from mlml.datasets.files.image_files import ImageFiles, SeveralFiles, comparable
from mlml.datasets.files.regular_files import check_file
from mlml.datasets.source import Source
from mlml.datasets.user_folder import STATES, Classes, RawTable, State, below, source

LISTS = {"train.txt": "train", "val.txt": "val", "test.txt": "test"}
_BOTH = "trainval.txt"
_MAIN = "ImageSets/Main"


class _File(NamedTuple):
    """An XML file: the split that its folder stands for or "", its place for messages, its path."""

    key: str
    place: str
    path: Path


def read(
    folder: Path,
    archives: Path,
    *,
    unlisted: State,
    annotations: SplitPaths = "Annotations",
    images: SplitPaths | None = None,
    splits: str = _MAIN,
    difficult: Literal["present", "absent", "unknown"] = "absent",
    classes: Classes | None = None,
    upright: bool = True,
) -> Source:
    """Read the XML files in a folder below `folder`; rows are sorted by image.

    Args:
        folder: the data set's folder.
        archives: unused.
        unlisted: state of a class without an object in an image.
        annotations: the folder of the XML files, or one for each split.
        images: the folder of the images, or one for each of `annotations`; None: ``JPEGImages``, or without such a
            folder those of the XML files. An XML file's image is the one it names, or else the one with its stem;
            if both are there, that is a fault, for the files may have been renamed.
        splits: the folder with train.txt, val.txt and test.txt, the names of XML files without .xml; optional. Of
            trainval.txt those names count that are in none of the first two, for the first that is missing.
        difficult: state of a class whose objects are all marked difficult; absent in the protocol of Pascal VOC.
        classes: the names of all classes; None: all names that occur, sorted.
        upright: whether to apply the EXIF orientation.

    Raises:
        ValueError: a file is missing or wrong; one line per fault, all faults together.
    """
    check_option(classes or [], "classes")
    where = by_split(folder, annotations, "annotations")
    for path in where.values():
        if not path.is_dir():
            raise ValueError(f"{path} is missing; it is the folder of the XML files (images.options.annotations)")
    root, start = image_folders(folder, where, images, "JPEGImages")
    files = _xml_files(where)
    lists = below(folder, splits, "splits")
    if splits != _MAIN and not lists.is_dir():
        raise ValueError(f"{lists} is missing; it must be a folder")
    words, faults = _read_splits(lists, files) if lists.is_dir() and "" in where else ({}, [])
    allowed = frozenset(classes) if classes else None
    parsed = [parse(file.path, allowed) for file in files]
    faults += [(file.place, fault) for file, one in zip(files, parsed, strict=True) for fault in one.faults]
    all_classes = tuple(classes or sorted({name for one in parsed for name in one.objects}))
    if files and not all_classes and not faults:
        raise ValueError(f"{', '.join(map(str, where.values()))}: no XML file has an object")
    good = [(file, one) for file, one in zip(files, parsed, strict=True) if one.filename]
    pictures = ImageFiles(root)
    images_of = [_image(pictures, start[file.key], one.filename, file.path.stem) for file, one in good]
    faults += [(file.place, fault) for (file, _), (_, fault) in zip(good, images_of, strict=True) if fault]
    raw = RawTable(
        file=where.get("", folder),
        classes=all_classes,
        images=[name for name, _ in images_of],
        split=[file.key or words.get(_stem(file), "train") for file, _ in good] if words or "" not in where else None,
        labels=_matrix([one.objects for _, one in good], all_classes, STATES[unlisted], STATES[difficult]),
        places=[file.place for file, _ in good],
        faults=faults,
        root=root,
        class_places={name: file.place for file, one in reversed(good) for name in one.objects},
        combine=False,  # a copied XML file may still name the first one's image
    )
    return source(raw, upright)


def _xml_files(where: Mapping[str, Path]) -> list[_File]:
    return [
        _File(key, f"{path.name}/{name}" if key else name, path / name)
        for key, path in where.items()
        for name in sorted(os.listdir(path))
        if name.lower().endswith(".xml") and not name.startswith(".")  # macOS adds ._a.xml to a.xml
    ]


def _stem(file: _File) -> str:
    return comparable(file.path.stem)


def _read_splits(folder: Path, files: Sequence[_File]) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The split of each stem of an XML file, and the faults of the lists."""
    lists = {name: split for name, split in LISTS.items() if os.path.lexists(folder / name)}
    missing = [name for name in ("train.txt", "val.txt") if name not in lists]
    if missing and os.path.lexists(folder / _BOTH):
        lists[_BOTH] = LISTS[missing[0]]  # last, as the others have precedence
    if not lists:
        raise ValueError(f"{folder} has none of {', '.join(LISTS)}; remove the folder to have the images split")
    places = defaultdict(list)
    for file in files:
        places[_stem(file)].append(file.place)
    first: dict[str, str] = {}  # list of each stem
    faults = []
    for name in lists:
        check_file(folder / name, "a list of XML files")
        for number, line in enumerate((folder / name).read_text("utf-8-sig", "replace").splitlines(), 1):
            stem = comparable(line)
            if stem and stem not in places:
                fault = f"{quoted(line.strip())} is not the name of an XML file, without .xml"
                faults.append((f"{name}, line {number}", fault))
            elif stem and (other := first.setdefault(stem, name)) != name and (name != _BOTH or lists[other] == "test"):
                faults += [(place, f"is in {other} and in {name}") for place in places[stem]]
    faults += [(file.place, f"is in none of {', '.join(lists)}") for file in files if _stem(file) not in first]
    return {stem: lists[name] for stem, name in first.items()}, faults


def _image(pictures: ImageFiles, start: str, filename: str, stem: str) -> tuple[str, str]:
    """The image that an XML file names, or else the one with its stem; and a fault, if both are there."""
    named = start + filename
    try:
        own = pictures.find(start + stem)
    except SeveralFiles:
        return named if pictures.has(named) else start + stem, ""
    except ValueError:
        return named, ""
    if os.path.isabs(filename) or not pictures.has(named):
        return own, ""
    elsewhere = os.path.dirname(own) != os.path.dirname(start + stem)
    if named == own or elsewhere or comparable(PurePath(filename).stem) == comparable(stem):
        return named, ""
    return named, f"its <filename> is {quoted(filename)}, but there is {own!r} too; correct it, or move that file away"


def _matrix(objects: Sequence[dict[str, bool]], classes: tuple[str, ...], unlisted: int, difficult: int) -> lb.Labels:
    column = {name: i for i, name in enumerate(classes)}
    labels = np.full((len(objects), len(classes)), unlisted, np.int8)
    for row, names in enumerate(objects):
        for name in names:
            labels[row, column[name]] = lb.PRESENT if names[name] else difficult
    return labels
