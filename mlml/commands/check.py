"""Whether a data set can be used: its labels and pictures are read, without training."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mlml import datasets
from mlml.core import params
from mlml.core.errors import quoted
from mlml.datasets import report
from mlml.datasets.files.regular_files import check_folder
from mlml.datasets.prepare import each_image
from mlml.datasets.source import Source
from mlml.download.archives import Download
from mlml.images.decoding import decode, traits
from mlml.labels import table
from mlml.training.recipe import Recipe

SHOWN = 20


def check(folder: Path, archives: Path, pictures: bool = True) -> list[str]:
    """The profile of the data set in `folder`, as lines of text.

    Args:
        folder: has a dataset.yaml.
        archives: the folder of the downloaded archives, for a data set that has some.
        pictures: whether each picture is decoded, too.

    Raises:
        ValueError: the data set's file, its labels or its pictures are wrong; one line per fault.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder in {Path.cwd()}; a data set is a folder with a dataset.yaml")
    check_folder(folder)
    file = folder / "dataset.yaml"
    download, layout = _read_file(file)
    download.check_manual_files(folder)
    try:
        source = datasets.read(layout.reader, folder, archives, layout.options)
    except ValueError as error:
        if str(error).startswith("images."):  # other messages name their file
            raise ValueError(f"{file}: {error}") from None
        raise
    table.check_splits(source.table, source.file or folder)
    sizes = f"{len(source.table.images):,} images, {len(source.table.classes):,} classes"
    lines, rare = [sizes, *report.summary(source.table)], report.classes(source.table)
    lines += ["", f"training labels of the {min(SHOWN, len(rare))} rarest classes", *rare[:SHOWN]]
    remarks = [*source.notes, *report.remarks(source.table)]
    remarks += _pictures(source, layout.image_size) if pictures else []
    return [*lines, "", *([f"note: {remark}" for remark in remarks] or ["nothing to note"])]


def _read_file(file: Path) -> tuple[Download, datasets.Layout]:
    """The sections archives and images of dataset.yaml; all faults of the file are told at once."""
    sections, faults = params.read_sections(file, params.DATASET), list[str]()
    with _noted(faults, file):
        download = params.parse(Download, {"archives": sections["archives"]}, "")
    with _noted(faults, file):
        layout = params.parse(datasets.Layout, sections["images"], "images")
        datasets.options_of(layout.reader, layout.options)
    with _noted(faults, file):
        weights = params.parse(Recipe, sections.get("training"), "training").weights
        if weights not in ("hub", "none") and not Path(weights).is_file():
            raise ValueError(f"training.weights: {weights} is missing; bring the file, or choose hub or none")
    if faults:
        raise ValueError("\n".join(faults))
    return download, layout


@contextmanager
def _noted(faults: list[str], file: Path) -> Iterator[None]:
    """Add the lines of a ValueError to `faults`, with the file's name."""
    try:
        yield
    except ValueError as error:
        faults += [f"{file}: {line.removeprefix(f'{file}: ')}" for line in str(error).split("\n")]


def _pictures(source: Source, size: int) -> list[str]:
    """Decode all pictures. Returns a line for each trait that is allowed but seldom meant."""
    rows_with: dict[str, list[int]] = defaultdict(list)
    rows_of_content: dict[bytes, list[int]] = defaultdict(list)

    def look(row: int) -> None:
        data = source.read(row)
        decode(data, strict=not source.published)
        picture = traits(data)
        small = max(picture.width, picture.height) * 2 <= size
        for trait, true in (("animated", picture.animated), ("turned", picture.turned), ("small", small)):
            if true:
                rows_with[trait].append(row)
        rows_of_content[hashlib.sha256(data).digest()].append(row)

    each_image(source, "check", look)
    texts = {
        "animated": "pictures are animated: the first frame counts",
        "turned": f"pictures have an EXIF orientation, which is {'followed' if source.upright else 'ignored'}",
        "small": f"pictures are not half as large as the prepared ones ({size} pixels)",
    }
    lines = [f"{len(rows_with[trait]):,} {text}" for trait, text in texts.items() if rows_with[trait]]
    return lines + _copies(source, [sorted(rows) for rows in rows_of_content.values() if len(rows) > 1])


def _copies(source: Source, groups: list[list[int]]) -> list[str]:
    """Lines on files with the same content; each group has the rows of one content."""
    names, split = source.table.images, source.table.split
    leaks = sorted(rows for rows in groups if len({split[row] for row in rows}) > 1)
    lines = []
    if leaks:
        example = " and ".join(f"{quoted(names[row])} ({split[row]})" for row in leaks[0][:2])
        lines.append(f"{len(leaks):,} pictures are in several splits under several names, as {example}: a leak")
    if len(groups) > len(leaks):
        lines.append(f"{len(groups) - len(leaks):,} pictures are there several times within a split")
    return lines
