"""Images a second of three loaders at equal cores: ``python -m benchmarks.loader --images FOLDER``.

peers    what public training code does: torch's DataLoader with a worker process a core; Pillow opens and converts,
         torchvision resizes, flips, makes floats and normalises
encoded  EncodedImages.stream; flipping and normalising are left to the device
rows     RowImages.stream, from a memory map in the system's cache

The loaders take turns, so that a busy moment of the machine hits all of them. Ratios are medians over the rounds.
"""

import argparse
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torchvision import transforms

from benchmarks import peers
from benchmarks.prepare import image_files, source_of
from benchmarks.turns import rate, ratio, take_turns
from mlml.core.threads import cores
from mlml.datasets.prepare import prepare
from mlml.images.resizing import accelerated
from mlml.images.store import Images, open_images


def check_pixels(paths: list[Path], size: int, stored: dict[str, Images]) -> None:
    """Exits when an image of a storage differs from what the peers' resize gives, by a bit."""
    batches = [np.array([row]) for row in range(len(paths))]
    resize = transforms.Resize((size, size))
    for name, images in stored.items():
        for path, rows in zip(paths, images.stream(batches), strict=True):
            if not np.array_equal(rows[0], np.asarray(resize(Image.open(path).convert("RGB")))):
                raise SystemExit(f"{name}: {path} has other pixels than Pillow gives")
    print(f"{len(paths)} images: pixels of {' and '.join(stored)} are Pillow's to the bit")


def own_epoch(images: Images, batch: int) -> Callable[[], int]:
    """An epoch of `images` in random order; how many it had."""
    random = np.random.default_rng(0)

    def epoch() -> int:
        order = random.permutation(len(images))
        batches = (order[start : start + batch] for start in range(0, len(order), batch))
        return sum(len(rows) for rows in images.stream(batches))

    return epoch


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loader", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--images", type=Path, required=True, help="a folder of image files")
    parser.add_argument("--size", type=int, default=448, help="edge of the loaded images in pixels")
    parser.add_argument("--cores", type=int, default=2, help="how many are used, by all loaders")
    parser.add_argument("--batch", type=int, default=16, help="images a batch")
    parser.add_argument("--count", type=int, default=800, help="images an epoch; files are repeated as needed")
    parser.add_argument("--rounds", type=int, default=5, help="epochs of each loader")
    options = parser.parse_args()
    if not hasattr(os, "sched_setaffinity"):
        raise SystemExit("this system cannot hold all loaders to the same cores; Linux can")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
    torch.set_num_threads(1)
    files = image_files(options.images)
    paths = [files[i % len(files)] for i in range(options.count)]
    source = source_of(lambda row: paths[row].read_bytes(), len(paths))
    with tempfile.TemporaryDirectory() as folder:
        stored: dict[str, Images] = {}
        for storage in ("encoded", "rows"):
            prepare(source, options.size, Path(folder) / storage, storage)
            stored[storage] = open_images(Path(folder) / storage)
        check_pixels(paths, options.size, stored)
        batches = peers.loader(paths, options.size, torch.zeros(len(paths), 1), options.batch)
        print(
            f"{options.size} x {options.size} pixels, batches of {options.batch}, {cores()} cores, "
            f"resizing by {'numba' if accelerated() else 'Pillow'}, {options.rounds} rounds of {len(paths)} images"
        )
        own = {name: own_epoch(images, options.batch) for name, images in stored.items()}
        rates = take_turns({"peers": peers.reads(batches), **own}, options.rounds)
    for name in rates:
        print(f"{name:10}{rate(rates, name):>30} images/s, to peers {ratio(rates, name, 'peers')}")


if __name__ == "__main__":
    main()
