"""Images a second of three loaders at equal cores: ``python -m benchmarks.loader --images FOLDER``.

peers    what public training code does: torch's DataLoader with a worker process a core; Pillow opens and converts,
         torchvision resizes, flips, makes floats and normalises
encoded  EncodedImages.stream; flipping and normalising are left to the device
rows     RowImages.stream, from a memory map in the system's cache

The loaders take turns, so that a busy moment of the machine hits all of them. Ratios are medians over the rounds.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from benchmarks.prepare import image_files, source_of
from mlml.images import Images, open_images
from mlml.preparation import prepare
from mlml.resizing import accelerated
from mlml.threads import cores

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Peers(Dataset):
    """An image file an item, as a float32 tensor [3, S, S]."""

    def __init__(self, paths: list[Path], size: int) -> None:
        self.paths = paths
        self.transform = transforms.Compose(
            [
                transforms.Resize((size, size)),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize(MEAN, STD),
            ]
        )

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.transform(Image.open(self.paths[index]).convert("RGB"))


def check_pixels(paths: list[Path], size: int, stored: dict[str, Images]) -> None:
    """Exits when an image of a storage differs from what the peers' resize gives, by a bit."""
    batches = [np.array([row]) for row in range(len(paths))]
    resize = transforms.Resize((size, size))
    for name, images in stored.items():
        for path, rows in zip(paths, images.stream(batches), strict=True):
            if not np.array_equal(rows[0], np.asarray(resize(Image.open(path).convert("RGB")))):
                raise SystemExit(f"{name}: {path} has other pixels than Pillow gives")
    print(f"{len(paths)} images: pixels of {' and '.join(stored)} are Pillow's to the bit")


def measure(loaders: dict[str, Callable[[], int]], rounds: int) -> None:
    """Let the loaders take turns; print a table."""
    rates: dict[str, list[float]] = {name: [] for name in loaders}
    for number in range(rounds + 1):
        for name, epoch in loaders.items():
            start = time.perf_counter()
            images = epoch()
            if number:  # the first round warms up: worker processes, caches
                rates[name].append(images / (time.perf_counter() - start))
    print(f"{'':10}{'images/s':>10}{'(least - most)':>20}{'to peers':>10}{'(least - most)':>18}")
    for name, rate in rates.items():
        ratios = [one / base for one, base in zip(rate, rates["peers"], strict=True)]
        spread = f"({min(rate):.0f} - {max(rate):.0f})"
        ratio = f"({min(ratios):.2f} - {max(ratios):.2f})"
        print(f"{name:10}{statistics.median(rate):10.0f}{spread:>20}{statistics.median(ratios):10.2f}{ratio:>18}")


def peers_epoch(loader: DataLoader) -> Callable[[], int]:
    """An epoch of the peers' loader, in random order; how many images it had."""
    return lambda: sum(len(batch) for batch in loader)


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
        peers = DataLoader(
            Peers(paths, options.size), options.batch, shuffle=True, num_workers=cores(), persistent_workers=True
        )
        print(
            f"{options.size} x {options.size} pixels, batches of {options.batch}, {cores()} cores, "
            f"resizing by {'numba' if accelerated() else 'Pillow'}, {options.rounds} rounds of {len(paths)} images"
        )
        own = {name: own_epoch(images, options.batch) for name, images in stored.items()}
        measure({"peers": peers_epoch(peers), **own}, options.rounds)


if __name__ == "__main__":
    main()
