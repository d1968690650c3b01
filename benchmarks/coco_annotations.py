"""Seconds and peak memory of reading COCO 2014's annotations: ``python -m benchmarks.coco_annotations``.

Writes an archive with annotation files of the official size, as many images and annotations, and outlines of random
numbers, and reads its label table in a process of its own, whose peak is what the system counted, all imports included.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.memory import peak
from mlml.datasets.archive_members import ZipMembers
from mlml.datasets.readers.coco2014 import ANNOTATIONS, label_table

# Images, those of them with an annotation, annotations, as in the official files.
PARTS = {"train2014": (82_783, 82_081, 604_907), "val2014": (40_504, 40_137, 291_875)}
CLASSES = 80
POINTS = (4, 43)  # of an outline, so that the files become as large as the official ones: 333 and 161 MB
OUTLINES = 5_000  # different ones; their text is longer than what deflate looks back on
MB = 1e6


def write(path: Path) -> list[int]:
    """Write the archive; returns the bytes of the files in it."""
    outlines = [outline(random.randint(*POINTS)) for _ in range(OUTLINES)]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for part, counts in PARTS.items():
            with archive.open(f"annotations/instances_{part}.json", "w", force_zip64=True) as file:
                for text in pieces(part, *counts, outlines):
                    file.write(text.encode())
        return [one.file_size for one in archive.infolist()]


def outline(points: int) -> str:
    return json.dumps([[round(random.uniform(0, 640), 2) for _ in range(2 * points)]])


def pieces(part: str, images: int, annotated: int, annotations: int, outlines: list[str]) -> Iterator[str]:
    """The text of one file, in parts: little of it is in memory at a time."""
    yield '{"info": {"year": 2014}, "images": ['
    for i in range(images):
        name = f"COCO_{part}_{i:012d}.jpg"
        urls = f'"coco_url": "http://images.cocodataset.org/{part}/{name}", "date_captured": "2013-11-14 16:28:13"'
        yield f'{", " * (i > 0)}{{"license": 5, "file_name": "{name}", {urls}, "height": 480, "width": 640, "id": {i}}}'
    yield '], "annotations": ['
    for i in range(annotations):
        image = i if i < annotated else random.randrange(annotated)
        box = ", ".join(f"{random.uniform(0, 480):.2f}" for _ in range(4))
        fields = f'"area": {random.uniform(0, 9e4):.4f}, "iscrowd": 0, "image_id": {image}, "bbox": [{box}]'
        category = f'"category_id": {random.randint(1, CLASSES)}, "id": {i}'
        yield f'{", " * (i > 0)}{{"segmentation": {random.choice(outlines)}, {fields}, {category}}}'
    names = ", ".join(f'{{"supercategory": "any", "id": {i}, "name": "class {i}"}}' for i in range(1, CLASSES + 1))
    yield f'], "categories": [{names}]}}'


def read(path: Path) -> None:
    """In a process of its own: read the label table, print what it took."""
    begin = time.perf_counter()
    table = label_table(ZipMembers(path).read)
    seconds = time.perf_counter() - begin
    assert table.labels.shape == (sum(annotated for _, annotated, _ in PARTS.values()), CLASSES)
    print(f"{seconds:.1f} seconds")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.coco_annotations", description=__doc__.partition("\n\n")[0]
    )
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        return read(options.read)
    random.seed(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ANNOTATIONS
        sizes = write(path)
        total = path.stat().st_size
        print(f"files of {' and '.join(f'{size / MB:.0f}' for size in sizes)} MB, archive {total / MB:.0f} MB")
        subprocess.run([sys.executable, "-m", "benchmarks.coco_annotations", "--read", str(path)], check=True)
    print(f"{peak(resource.RUSAGE_CHILDREN) / MB:.0f} MB of memory at most")


if __name__ == "__main__":
    main()
