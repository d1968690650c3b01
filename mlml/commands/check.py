"""See whether a data set can be used, without training: ``python -m mlml.commands.check datasets/mine``.

Reads the labels and decodes every picture, says all that is wrong at once, and prints a short profile. The exit status
is 1 when something is wrong.
"""

import argparse
import hashlib
import sys
from collections import defaultdict
from pathlib import Path

from mlml import datasets
from mlml.core import params
from mlml.datasets import report
from mlml.datasets.prepare import each_image
from mlml.datasets.source import Source
from mlml.download.archives import Download
from mlml.images.decoding import decode, traits
from mlml.labels import table
from mlml.training.recipe import Recipe

SHOWN = 20


def check(folder: Path, archives: Path, pictures: bool = True) -> list[str]:
    """The profile of the data set in `folder` as lines of text.

    Args:
        folder: with a dataset.yaml.
        archives: the folder of the downloaded archives, for a data set that has some.
        pictures: whether each picture is decoded, too.

    Raises:
        ValueError: the data set's file, its labels or its pictures are wrong; one line a fault.
    """
    file = folder / "dataset.yaml"
    sections = params.read_sections(file, params.DATASET)
    params.parse(Download, {"archives": sections.get("archives")}, str(file)).check_manual_files(folder)
    layout = params.parse(datasets.Layout, sections.get("images"), f"{file}: images")
    params.parse(Recipe, sections.get("training"), f"{file}: training")
    source = datasets.read(layout.reader, folder, archives, layout.options)
    table.check_splits(source.table)
    sizes = f"{len(source.table.images):,} images, {len(source.table.classes):,} classes"
    lines, rare = [sizes, *report.summary(source.table)], report.classes(source.table)
    lines += ["", f"training labels of the {min(SHOWN, len(rare))} rarest classes", *rare[:SHOWN]]
    remarks = report.remarks(source.table) + (_pictures(source, layout.image_size) if pictures else [])
    return [*lines, "", *(f"look at: {remark}" for remark in remarks or ["nothing"])]


def _pictures(source: Source, size: int) -> list[str]:
    """Decode all pictures; what is allowed but seldom meant, one line each."""
    found: dict[str, list[int]] = defaultdict(list)
    same: dict[bytes, list[int]] = defaultdict(list)

    def look(row: int) -> None:
        data = source.read(row)
        decode(data)
        picture = traits(data)
        small = max(picture.width, picture.height) * 2 <= size
        for key, true in (("animated", picture.animated), ("turned", picture.turned), ("small", small)):
            if true:
                found[key].append(row)
        same[hashlib.sha256(data).digest()].append(row)

    each_image(source, "check", look)
    texts = {
        "animated": "pictures are animated: the first frame counts",
        "turned": f"pictures have an EXIF orientation, which is {'followed' if source.upright else 'ignored'}",
        "small": f"pictures are not half as large as the prepared ones ({size} pixels)",
    }
    lines = [f"{len(found[key]):,} {text}" for key, text in texts.items() if found[key]]
    return lines + _copies(source, [sorted(rows) for rows in same.values() if len(rows) > 1])


def _copies(source: Source, groups: list[list[int]]) -> list[str]:
    """Files with the same content under several names."""
    names, split = source.table.images, source.table.split
    leaks = sorted(rows for rows in groups if len({split[row] for row in rows}) > 1)
    lines = []
    if leaks:
        example = " and ".join(f"{names[row]} ({split[row]})" for row in leaks[0][:2])
        lines.append(f"{len(leaks):,} pictures are in several splits under several names, as {example}: a leak")
    if len(groups) > len(leaks):
        lines.append(f"{len(groups) - len(leaks):,} pictures are there several times within a split")
    return lines


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m mlml.commands.check", description=__doc__.partition("\n\n")[0])
    parser.add_argument("folder", type=Path, help="the data set's folder, datasets/<name>")
    parser.add_argument("--archives", type=Path, default=Path("data/download"), help="where its archives are")
    parser.add_argument("--labels-only", action="store_true", help="do not decode the pictures")
    arguments = parser.parse_args()
    try:
        print("\n".join(check(arguments.folder, arguments.archives, not arguments.labels_only)))
    except (ValueError, OSError) as error:
        sys.exit(f"check: {error}")


if __name__ == "__main__":
    main()
