"""A user's images with an XML file each in the format of Pascal VOC, as labelling tools write it.

A class is present in an image that has an object of it. The files do not tell whether other classes are absent or
unknown, so an option must.
"""

import os
from collections.abc import Collection, Sequence
from pathlib import Path, PurePath
from typing import Literal, NamedTuple
from xml.etree import ElementTree

import numpy as np

from mlml import labels as lb
from mlml.datasets.source import Source
from mlml.datasets.user_folder import STATES, Classes, RawTable, State, below, source

LISTS = {"train.txt": "train", "val.txt": "val", "test.txt": "test"}
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
_MAIN = "ImageSets/Main"


class _Annotation(NamedTuple):
    """A parsed XML file: its image, whether each class has an object that is not difficult, and its faults."""

    filename: str
    objects: dict[str, bool]
    faults: list[str]


def read(
    folder: Path,
    archives: Path,
    *,
    unlisted: State,
    annotations: str = "Annotations",
    images: str = "JPEGImages",
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
        annotations: the folder of the XML files.
        images: the folder of the images. An XML file's image is the one it names, or else the one with its stem.
        splits: the folder with train.txt, val.txt and test.txt, the names of XML files without .xml; optional.
        difficult: state of a class whose objects are all marked difficult; absent in the protocol of Pascal VOC.
        classes: the names of all classes; None: all names that occur, sorted.
        upright: whether to apply the EXIF orientation.

    Raises:
        ValueError: a file is missing or wrong; one line per fault, all faults together.
    """
    where, root = below(folder, annotations, "annotations"), below(folder, images, "images")
    lists = below(folder, splits, "splits")
    for path in (where, root, *([lists] if splits != _MAIN else [])):
        if not path.is_dir():
            raise ValueError(f"{path} is missing; it must be a folder")
    files = {path.stem: path for path in sorted(where.iterdir()) if path.suffix.lower() == ".xml"}
    words, faults = _read_splits(lists, files) if lists.is_dir() else ({}, [])
    allowed = frozenset(classes) if classes else None
    parsed = {stem: _parse(path, allowed) for stem, path in files.items()}
    faults += [(files[stem].name, fault) for stem, one in parsed.items() for fault in one.faults]
    all_classes = tuple(classes or sorted({name for one in parsed.values() for name in one.objects}))
    if files and not all_classes and not faults:
        raise ValueError(f"{where}: no XML file has an object")
    pictures = _pictures(root)
    good = {stem: one for stem, one in parsed.items() if one.filename}
    names = [_image(root, one.filename, pictures.get(stem)) for stem, one in good.items()]
    matrix = _matrix([one.objects for one in good.values()], all_classes, STATES[unlisted], STATES[difficult])
    split = [words.get(stem, "train") for stem in good] if words else None
    places = [files[stem].name for stem in good]
    return source(RawTable(where, all_classes, names, split, matrix, places, faults, root), upright)


def _parse(path: Path, classes: Collection[str] | None) -> _Annotation:
    try:
        tree = ElementTree.parse(path, ElementTree.XMLParser(target=_NoDoctype()))
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        return _Annotation("", {}, [f"no XML that can be read: {error}"])
    filename = (tree.findtext("filename") or "").strip()
    faults = [] if filename else ["there is no <filename>"]
    objects: dict[str, bool] = {}
    for number, one in enumerate(tree.findall("object"), 1):
        name, flag = ((one.findtext(key) or "").strip() for key in ("name", "difficult"))
        if not name:
            faults.append(f"object {number} has no <name>")
        elif classes is not None and name not in classes:
            faults.append(f"object {number}: class {name!r} is not in images.options.classes")
        elif flag not in ("", "0", "1"):
            faults.append(f"object {number}: <difficult> is {flag!r}, not 0 or 1")
        else:
            objects[name] = objects.get(name, False) or flag != "1"
    return _Annotation(filename, objects, faults)


class _NoDoctype(ElementTree.TreeBuilder):
    """Refuses a document type: its entities may fill the memory, and these files need none."""

    def doctype(self, name: str, pubid: str, system: str) -> None:
        raise ValueError("it has a DOCTYPE, which is not read; remove it")


def _read_splits(folder: Path, files: dict[str, Path]) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The split of each XML file, and the faults of the lists."""
    existing = [name for name in LISTS if (folder / name).is_file()]
    if not existing:
        raise ValueError(f"{folder} has none of {', '.join(LISTS)}; remove the folder to have the images split")
    words: dict[str, str] = {}
    faults = []
    for name in existing:
        for number, line in enumerate((folder / name).read_text("utf-8-sig", "replace").splitlines(), 1):
            stem = line.strip()
            if stem and stem not in files:
                faults.append((f"{name}, line {number}", f"{stem!r} is not the name of an XML file, without .xml"))
            elif stem and words.setdefault(stem, LISTS[name]) != LISTS[name]:
                faults.append((files[stem].name, f"is in {words[stem]}.txt and in {name}"))
    faults += [(path.name, f"is in none of {', '.join(existing)}") for stem, path in files.items() if stem not in words]
    return words, faults


def _pictures(root: Path) -> dict[str, str]:
    """Stem -> name of the images in a folder; of several suffixes, the first in `SUFFIXES` counts."""
    rank = {suffix: i for i, suffix in enumerate(SUFFIXES)}
    paths = [path for path in root.iterdir() if path.suffix.lower() in rank]
    return {path.stem: path.name for path in sorted(paths, key=lambda path: (-rank[path.suffix.lower()], path.name))}


def _image(root: Path, filename: str, same_stem: str | None) -> str:
    """The image that an XML file names, or else the one with its stem."""
    path = PurePath(filename)
    inside = not path.is_absolute() and ".." not in path.parts
    return filename if same_stem is None or (inside and os.path.isfile(root / path)) else same_stem


def _matrix(objects: Sequence[dict[str, bool]], classes: tuple[str, ...], unlisted: int, difficult: int) -> lb.Labels:
    column = {name: i for i, name in enumerate(classes)}
    labels = np.full((len(objects), len(classes)), unlisted, np.int8)
    for row, names in enumerate(objects):
        for name in names:
            labels[row, column[name]] = lb.PRESENT if names[name] else difficult
    return labels
