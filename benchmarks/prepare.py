"""Is `prepare` as fast as Pillow allows, and its memory flat? ``python -m benchmarks.prepare --images FOLDER``.

bare     as many processes as cores, all at once: each only decodes and resizes its share of the images by Pillow,
         and writes nothing. One process alone would be no measure: cores that share caches slow each other down.
prepare  the same images, written to the disk

The two take turns; the ratio is the median over the rounds. Memory is what belongs to the process alone (RssAnon of
/proc/self/status), so without the files that the system keeps cached; Linux only.
"""

import argparse
import io
import multiprocessing
import multiprocessing.synchronize
import re
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from PIL import Image

from mlml.core.threads import cores
from mlml.datasets.prepare import prepare
from mlml.datasets.source import Source
from mlml.images.decoding import to_row
from mlml.images.resizing import accelerated
from mlml.images.store import Storage
from mlml.labels.table import Table

SUFFIXES = {".jpg", ".jpeg", ".png"}
SPAWN = multiprocessing.get_context("spawn")


def image_files(folder: Path) -> list[Path]:
    """The images in a folder, sorted; exits when there are none."""
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    if not found:
        raise SystemExit(f"{folder} holds no {' '.join(sorted(SUFFIXES))} files")
    return found


def source_of(read: Callable[[int], bytes], n: int) -> Source:
    """A data set without labels to speak of."""
    return Source(Table(("any",), tuple(map(str, range(n))), ("train",) * n, np.ones((n, 1), np.int8)), read)


def bare_loop(
    files: list[Path], rows: range, size: int, start: multiprocessing.synchronize.Barrier, answer: Connection
) -> None:
    """A process of `bare`: seconds for the images in `rows`."""
    data = [path.read_bytes() for path in files]
    start.wait()
    begin = time.perf_counter()
    for row in rows:
        image = Image.open(io.BytesIO(data[row % len(data)])).convert("RGB")
        np.asarray(image.resize((size, size), Image.Resampling.BILINEAR))
    answer.send(time.perf_counter() - begin)


def bare(files: list[Path], count: int, size: int) -> float:
    """Images a second of all processes together."""
    processes = cores()
    start = SPAWN.Barrier(processes)
    rate = 0.0
    running = []
    for number in range(processes):
        rows = range(number, count, processes)
        mine, other = SPAWN.Pipe()
        process = SPAWN.Process(target=bare_loop, args=(files, rows, size, start, other))
        process.start()
        running.append((process, mine, len(rows)))
    for process, mine, images in running:
        rate += images / mine.recv()
        process.join()
    return rate


def prepare_once(files: list[Path], count: int, size: int, storage: Storage, folder: Path, answer: Connection) -> None:
    """A process that prepares: seconds, and MiB of memory before and at most."""
    data = [path.read_bytes() for path in files]
    for content in data * 2:  # compiles, and meets all shapes; writes nothing that the disk would still be busy with
        to_row(content, size)
    source = source_of(lambda row: data[row % len(data)], count)
    before = anonymous_memory()
    with Peak() as peak:
        begin = time.perf_counter()
        prepare(source, size, folder, storage)
        seconds = time.perf_counter() - begin
    answer.send((seconds, before, peak.most))


def run_prepare(files: list[Path], count: int, size: int, storage: Storage) -> tuple[float, float, float]:
    """`prepare_once` in a process and a folder of its own."""
    mine, other = SPAWN.Pipe()
    with tempfile.TemporaryDirectory() as folder:
        process = SPAWN.Process(target=prepare_once, args=(files, count, size, storage, Path(folder), other))
        process.start()
        seconds, before, most = mine.recv()
        process.join()
    return seconds, before, most


def anonymous_memory() -> float:
    """MiB."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) / 1024


class Peak:
    """Looks at this process's memory 200 times a second."""

    def __enter__(self) -> "Peak":
        self.most = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(0.005):
            self.most = max(self.most, anonymous_memory())


def spread(values: list[float], form: str) -> str:
    """The median, the least and the most."""
    return f"{statistics.median(values):{form}} ({min(values):{form}} - {max(values):{form}})"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prepare", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--images", type=Path, required=True, help="a folder of image files")
    parser.add_argument("--size", type=int, default=448, help="edge of the prepared images in pixels")
    parser.add_argument("--count", type=int, default=1000, help="images a round; files are repeated as needed")
    parser.add_argument("--files", type=int, default=500, help="how many different files, at most")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--storage", choices=("rows", "encoded"), default="rows")
    options = parser.parse_args()
    files = image_files(options.images)[: options.files]
    rates: dict[str, list[float]] = {"bare": [], "prepare": []}
    turns: dict[str, Callable[[], float]] = {
        "bare": lambda: bare(files, options.count, options.size),
        "prepare": lambda: options.count / run_prepare(files, options.count, options.size, options.storage)[0],
    }
    for _ in range(options.rounds):
        for name, turn in turns.items():
            rates[name].append(turn())
    print(
        f"{options.size} x {options.size} pixels, storage {options.storage}, {cores()} cores, "
        f"resizing by {'numba' if accelerated() else 'Pillow'}, {options.rounds} rounds of {options.count} images"
    )
    for name, rate in rates.items():
        print(f"{name:8} {spread(rate, '.0f')} images/s")
    ratios = [mine / base for mine, base in zip(rates["prepare"], rates["bare"], strict=True)]
    print(f"ratio    {spread(ratios, '.2f')}")
    for count in (options.count, 4 * options.count):
        _, before, most = run_prepare(files, count, options.size, options.storage)
        print(f"memory   {most:.0f} MiB at most for {count} images ({before:.0f} MiB before)")


if __name__ == "__main__":
    main()
