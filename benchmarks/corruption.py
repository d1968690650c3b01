"""Drawing the observed labels against a loop over the rows, at COCO's size: ``python -m benchmarks.corruption``."""

import argparse
import time
from collections.abc import Callable

import numpy as np

from mlml import labels as lb
from mlml.corruption import corrupt
from mlml.settings import Setting


def loop(labels: lb.Labels, setting: Setting, seed: int) -> lb.Labels:
    """The same rules, an image at a time, as published code does it."""
    random = np.random.default_rng(seed)
    observed = np.zeros_like(labels)
    for row, out in zip(labels, observed, strict=True):
        positives = np.flatnonzero(row == lb.PRESENT)
        if setting.kind == "pol":
            kept = random.choice(len(row), round(setting.rate * len(row)), replace=False)
        elif setting.kind == "ppl":
            kept = random.choice(positives, min(len(positives), setting.rate * len(positives) // 1 + 1), replace=False)
        else:
            kept = random.choice(positives, min(len(positives), 1), replace=False)
        out[kept] = row[kept]
    return observed


def seconds(draw: Callable[..., object], labels: lb.Labels, setting: Setting, repeats: int) -> float:
    """Of the best of some runs."""
    best = np.inf
    for _ in range(repeats):
        started = time.perf_counter()
        draw(labels, setting, 0)
        best = min(best, time.perf_counter() - started)
    return best


def main() -> None:
    """Print one line a setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=65_665)
    parser.add_argument("--classes", type=int, default=80)
    parser.add_argument("--present", type=float, default=2.94, help="present labels an image")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    random = np.random.default_rng(0)
    present = random.random((arguments.rows, arguments.classes)) < arguments.present / arguments.classes
    present[np.arange(arguments.rows), random.integers(0, arguments.classes, arguments.rows)] = True
    labels = np.where(present, lb.PRESENT, lb.ABSENT).astype(np.int8)
    print(f"{arguments.rows:,} images, {arguments.classes} classes, best of {arguments.repeats}")
    print("| setting | loop, s | ours, s | ratio |\n|---|--:|--:|--:|")
    for name in ("pol_02", "pol_08", "ppl_06", "spl"):
        setting = Setting.parse(name)
        totals = [(each != lb.UNKNOWN).sum() for each in (loop(labels, setting, 0), corrupt(labels, setting, 0))]
        assert totals[0] == totals[1], "the same number of labels"
        slow, fast = (seconds(draw, labels, setting, arguments.repeats) for draw in (loop, corrupt))
        print(f"| {name} | {slow:.2f} | {fast:.3f} | {slow / fast:.1f} |", flush=True)


if __name__ == "__main__":
    main()
