"""A user's images with annotations in the format of COCO's instances files, as most labelling tools export them.

A class is present in an image that has an annotation of it. The file does not tell whether other classes are absent or
unknown, so an option must.
"""

from pathlib import Path

import numpy as np

from mlml.core.errors import quoted
from mlml.datasets.annotations.coco import Instances, parse_file
from mlml.datasets.annotations.split_paths import SplitPaths, by_split, image_folders
from mlml.datasets.source import Source
from mlml.datasets.user_folder import STATES, RawTable, State, source


def read(
    folder: Path,
    archives: Path,
    *,
    unlisted: State,
    annotations: SplitPaths = "instances.json",
    images: SplitPaths | None = None,
    upright: bool = True,
) -> Source:
    """Read the annotations in `folder`; rows are sorted by the image's file name, classes are in category-id order.

    Images without annotations are kept. Negatives that LVIS lists for an image are absent.

    Args:
        folder: the data set's folder.
        archives: unused.
        unlisted: state of a class without an annotation in an image.
        annotations: the annotation file below `folder`, or one for each split. Splits without a file are drawn (see
            `mlml.datasets.user_folder.source`).
        images: the folder below `folder` that the file names of images start from, or one for each annotation file.
            None: ``images``, or without such a folder that of the annotation file.
        upright: whether to apply the EXIF orientation.

    Raises:
        ValueError: a file is missing or wrong, or the files' categories differ; one line per fault.
    """
    paths = by_split(folder, annotations, "annotations")
    root, start = image_folders(folder, {key: path.parent for key, path in paths.items()}, images, "images")
    parsed = {key: parse_file(path) for key, path in paths.items()}
    first = next(iter(parsed))
    for key, one in parsed.items():
        if one.categories != parsed[first].categories:
            raise ValueError(f"{paths[key]}: {_difference(one, parsed[first])} {paths[first]}; they must have the same")
        if one.federated and unlisted == "absent":
            raise ValueError(
                f"{paths[key]} has lists of negatives (neg_category_ids), as LVIS: other classes were not looked for; "
                "set images.options.unlisted to unknown"
            )
    place = {key: f"{path.relative_to(folder)}, image id" if key else "image id" for key, path in paths.items()}
    raw = RawTable(
        file=paths.get("", folder),
        classes=tuple(name for _, name in parsed[first].categories),
        images=[start[key] + name for key, one in parsed.items() for name in one.files],
        split=None if "" in parsed else [key for key, one in parsed.items() for _ in one.files],
        labels=np.concatenate([one.labels(STATES[unlisted]) for one in parsed.values()]),
        places=[f"{place[key]} {number}" for key, one in parsed.items() for number in one.ids],
        faults=[],
        root=root,
        notes=tuple(f"{paths[key]}: {note}" for key, one in parsed.items() for note in one.notes),
    )
    return source(raw, upright)


def _difference(one: Instances, other: Instances) -> str:
    """The first category that only one of two files has, as a phrase for a message."""
    more = [category for category in one.categories if category not in other.categories]
    number, name = more[0] if more else next(each for each in other.categories if each not in one.categories)
    return f"{'has' if more else 'lacks'} the category {quoted(name)} (id {number!r}), unlike"
