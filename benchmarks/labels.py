"""Label tables of Open Images' size (9,605 classes, 100,000 rows): seconds and peak memory of each step.

``python -m benchmarks.labels``. Each step runs in a process of its own, whose peak is what the system counted.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.memory import peak
from mlml import corruption, datasets
from mlml.labels import table
from mlml.settings import Setting

GB = 1e9


def make(folder: Path, rows: int, classes: int) -> None:
    """Full labels, eight present an image, as a user's table; its images are empty files."""
    random = np.random.default_rng(0)
    images = [f"images/{i // 1000:03d}/{i:07d}.jpg" for i in range(rows)]
    for image in images:
        path = folder / image
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    labels = np.full((rows, classes), -1, np.int8)
    labels[np.repeat(np.arange(rows), 8), random.integers(0, classes, 8 * rows)] = 1
    split = random.choice(table.SPLITS, rows, p=(0.7, 0.1, 0.2))
    names = tuple(f"class {i}" for i in range(classes))
    table.write(table.Table(names, tuple(images), tuple(split), labels), folder / "labels.csv")


def prepare(folder: Path, rows: int, classes: int) -> None:
    """What the stage prepare does with the labels: read a user's table, write ours."""
    table.write(datasets.read("folder", folder, folder).table, folder / "table.csv")


def corrupt(folder: Path, rows: int, classes: int) -> None:
    """What the stage corrupt does."""
    labels = table.read(folder / "table.csv")
    train = labels.take(labels.rows("train"))
    del labels
    observed = replace(train, labels=corruption.corrupt(train.labels, Setting.parse("pol_02"), 0))
    corruption.statistics(observed.labels)
    table.write(observed, folder / "observed.csv")


STEPS: dict[str, Callable[[Path, int, int], None]] = {"make": make, "prepare": prepare, "corrupt": corrupt}


def main() -> None:
    """Run all steps, or as a child one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--classes", type=int, default=9_605)
    parser.add_argument("--step", choices=STEPS)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    if arguments.step:
        started = time.perf_counter()
        STEPS[arguments.step](arguments.folder, arguments.rows, arguments.classes)
        print(json.dumps({"seconds": time.perf_counter() - started, "peak": peak(resource.RUSAGE_SELF)}))
        return
    cells = arguments.rows * arguments.classes
    print(f"{arguments.rows:,} rows, {arguments.classes:,} classes: {cells / GB:.2f} GB at a byte a label")
    print("| step | seconds | peak memory, GB |\n|---|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        for step in STEPS:
            words = [sys.executable, "-m", "benchmarks.labels", "--step", step, "--folder", folder]
            words += ["--rows", str(arguments.rows), "--classes", str(arguments.classes)]
            done = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)
            print(f"| {step} | {done['seconds']:.1f} | {done['peak'] / GB:.2f} |", flush=True)


if __name__ == "__main__":
    main()
