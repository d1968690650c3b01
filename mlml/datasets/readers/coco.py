"""A user's images with annotations in the format of COCO's instances files, as most labelling tools export them.

A class is present in an image that has an annotation of it. The file does not tell whether other classes are absent or
unknown, so an option must.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import PlainValidator

from mlml.datasets.coco_json import Instances, parse_file
from mlml.datasets.source import Source
from mlml.datasets.user_folder import STATES, RawTable, State, below, source

_KEYS = ("train", "validation", "val", "test")


def _files(value: Any) -> str | dict[str, str]:
    values = list(value.values()) if isinstance(value, Mapping) else [value]
    keys_valid = not isinstance(value, Mapping) or set(value) <= set(_KEYS)
    if not values or not keys_valid or not all(isinstance(name, str) and name for name in values):
        raise ValueError(f"must be a file, or a file each under some of {', '.join(_KEYS)}")
    return dict(value) if isinstance(value, Mapping) else str(value)


def read(
    folder: Path,
    archives: Path,
    *,
    unlisted: State,
    annotations: Annotated[str | dict[str, str], PlainValidator(_files)] = "instances.json",
    images: str = "images",
    upright: bool = True,
) -> Source:
    """Read the annotations in `folder`; rows are sorted by the image's file name, classes are in category-id order.

    Images without annotations are kept.

    Args:
        folder: the data set's folder.
        archives: unused.
        unlisted: state of a class without an annotation in an image.
        annotations: the annotation file below `folder`, or one for each split. Splits without a file are drawn (see
            `mlml.datasets.user_folder.source`).
        images: the folder below `folder` that the file names of images start from.
        upright: whether to apply the EXIF orientation.

    Raises:
        ValueError: a file is missing or wrong, or the files' categories differ; one line per fault.
    """
    named = {"": annotations} if isinstance(annotations, str) else annotations
    where = {key: f"annotations.{key}".removesuffix(".") for key in named}
    paths = {key: below(folder, name, where[key]) for key, name in named.items()}
    root = below(folder, images, "images")
    if not root.is_dir():
        raise ValueError(f"{root} is missing; it is the folder of the images, or say which in images.options.images")
    parsed = {key: parse_file(path) for key, path in paths.items()}
    first = next(iter(parsed))
    for key, one in parsed.items():
        if one.categories != parsed[first].categories:
            raise ValueError(f"{paths[key]}: {_difference(one, parsed[first])} {paths[first]}; they must have the same")
    place = {key: f"{named[key]}, image id" if key else "image id" for key in parsed}
    raw = RawTable(
        file=paths.get("", folder),
        classes=tuple(name for _, name in parsed[first].categories),
        images=[file for one in parsed.values() for file in one.files],
        split=None if "" in parsed else [key for key, one in parsed.items() for _ in one.files],
        labels=np.concatenate([one.labels(STATES[unlisted]) for one in parsed.values()]),
        places=[f"{place[key]} {number}" for key, one in parsed.items() for number in one.ids],
        faults=[],
        root=root,
    )
    return source(raw, upright)


def _difference(one: Instances, other: Instances) -> str:
    """The first category that only one of two files has, as a phrase for a message."""
    more, less = (
        [f"{name!r} (id {number!r})" for number, name in here.categories if (number, name) not in there.categories]
        for here, there in ((one, other), (other, one))
    )
    return f"has the category {more[0]}, unlike" if more else f"lacks the category {less[0]} of"
