"""Options of readers that are one path, or one for each split."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import PlainValidator

from mlml.datasets.files.image_files import is_picture, pictures
from mlml.datasets.user_folder import below

_KEYS = ("train", "validation", "val", "test")


def _check(value: Any) -> str | dict[str, str]:
    values = list(value.values()) if isinstance(value, Mapping) else [value]
    keys_valid = not isinstance(value, Mapping) or set(value) <= set(_KEYS)
    if not values or not keys_valid or not all(isinstance(path, str) and path for path in values):
        raise ValueError(f"must be a path, or a path each under some of {', '.join(_KEYS)}")
    return dict(value) if isinstance(value, Mapping) else str(value)


SplitPaths = Annotated[str | dict[str, str], PlainValidator(_check)]


def by_split(folder: Path, value: str | dict[str, str], option: str) -> dict[str, Path]:
    """The paths below `folder` by split; a single one has the key "".

    Raises:
        ValueError: a path lies outside of `folder`.
    """
    named = {"": value} if isinstance(value, str) else value
    return {key: below(folder, name, f"{option}.{key}".removesuffix(".")) for key, name in named.items()}


def image_folders(
    folder: Path, labels: Mapping[str, Path], images: str | dict[str, str] | None, usual: str
) -> tuple[Path, dict[str, str]]:
    """Where the names of images start.

    Args:
        folder: the data set's folder.
        labels: the folder of the label files by split, or under "".
        images: the option: the folder of all images, or one for each key of `labels`. None: `usual`, if it is there,
            or else the folders of the label files, if pictures lie there.

    Returns:
        The folder of all images, and for each key of `labels` what to put before a name to get a path below it.

    Raises:
        ValueError: a folder is missing, or the keys of `images` are not those of `labels`.
    """
    if images is None and (folder / usual).is_dir():
        images = usual
    chosen = labels if images is None else by_split(folder, images, "images")
    if "" not in chosen and set(chosen) != set(labels):
        raise ValueError("images.options.images: must be one path, or have the keys of annotations")
    for path in chosen.values():
        if not path.is_dir() or (images is None and not any(map(is_picture, os.listdir(path)))):
            lacks = folder / usual if images is None else path
            where = "it is the folder of the images, or say which in images.options.images"
            raise ValueError(f"{lacks} is missing; {where}")
    if "" in chosen:
        return chosen[""], dict.fromkeys(labels, "")
    return folder, {key: _start(folder, path) for key, path in chosen.items()}


def table_starts(folder: Path, tables: Mapping[str, Path]) -> dict[str, str]:
    """What to put before the names of images in each table to get a path below `folder`.

    That is the folder of a split's table, if pictures lie there or below it, or else nothing.
    """
    beside = {key: bool(key) and next(pictures(path.parent), None) is not None for key, path in tables.items()}
    return {key: _start(folder, path.parent) if beside[key] else "" for key, path in tables.items()}


def _start(folder: Path, path: Path) -> str:
    start = os.path.relpath(path, folder)
    return "" if start == "." else f"{start}/"
