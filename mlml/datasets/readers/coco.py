"""A user's own images with annotations in the form of COCO's instances files, as most labelling tools export them.

A class is present in an image where it has an annotation. What a class without one is cannot be seen from the file,
and must be said: everything may have been annotated, or only some classes in each image.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import PlainValidator

from mlml.datasets.coco_json import Instances, parse_file
from mlml.datasets.source import Source
from mlml.datasets.user_folder import STATES, Given, State, below, source

_KEYS = ("train", "validation", "val", "test")


def _files(value: Any) -> str | dict[str, str]:
    values = list(value.values()) if isinstance(value, Mapping) else [value]
    known = not isinstance(value, Mapping) or set(value) <= set(_KEYS)
    if not values or not known or not all(isinstance(one, str) and one for one in values):
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
        folder: the data set's own folder.
        archives: unused.
        unlisted: what a class without an annotation in an image is.
        annotations: the file of annotations, below `folder`; or one for each split. From one file, and without a file
            for validation, images are drawn (see `mlml.datasets.user_folder.source`).
        images: the folder below `folder` that the file names of images start from.
        upright: whether pictures are turned as their EXIF orientation says.

    Raises:
        ValueError: a file is missing or wrong, or the files' categories differ; one line a fault.
    """
    named = {"": annotations} if isinstance(annotations, str) else annotations
    where = {key: f"annotations.{key}".removesuffix(".") for key in named}
    paths = {key: below(folder, name, where[key]) for key, name in named.items()}
    root = below(folder, images, "images")
    if not root.is_dir():
        raise ValueError(f"{root} is missing; it is the folder of the images, or say which in images.options.images")
    found = {key: parse_file(path) for key, path in paths.items()}
    first = next(iter(found))
    for key, one in found.items():
        if one.categories != found[first].categories:
            raise ValueError(f"{paths[key]}: {_difference(one, found[first])} {paths[first]}; they must have the same")
    place = {key: f"{named[key]}, image id" if key else "image id" for key in found}
    given = Given(
        file=paths.get("", folder),
        classes=tuple(name for _, name in found[first].categories),
        images=[file for one in found.values() for file in one.files],
        split=None if "" in found else [key for key, one in found.items() for _ in one.files],
        labels=np.concatenate([one.labels(STATES[unlisted]) for one in found.values()]),
        places=[f"{place[key]} {number}" for key, one in found.items() for number in one.ids],
        faults=[],
        root=root,
    )
    return source(given, upright)


def _difference(one: Instances, other: Instances) -> str:
    """What the categories of one file have that another's lack, or else the other way round."""
    more, less = (
        [f"{name!r} (id {number!r})" for number, name in here.categories if (number, name) not in there.categories]
        for here, there in ((one, other), (other, one))
    )
    return f"has the category {more[0]}, unlike" if more else f"lacks the category {less[0]} of"
