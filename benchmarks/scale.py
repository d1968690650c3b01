"""How time and memory of training and evaluation grow with images and classes: ``python -m benchmarks.scale``.

train       mlml.training.experiment.train, all of it: epochs with updates of the pseudo labels, validation, recorder
checkpoint  the same, with its state put aside after each epoch
resume      the state taken up again, and one more epoch
evaluate    predictions and average precision, on as many images

Images and labels are random, on disk. Each step runs in a process of its own, whose peak is what the system counted,
on one thread: where other processes run, the time of the processor then changes little, in contrast to the clock's.
With --limit there is one size, and no process may have more memory of its own.
"""

import argparse
import contextlib
import io
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks import random_run
from benchmarks.memory import peak
from benchmarks.random_run import Work

MB, GB = 1e6, 1e9
MEASURED: dict[str, Callable[[Work], None]] = {
    "train": random_run.train,
    "checkpoint": random_run.with_checkpoint,
    "resume": random_run.resume,
    "evaluate": random_run.score,
}
STEPS = {"make": random_run.make, **MEASURED}
TITLES = ["clock, s", "CPU, s", "ratio", "peak, MB", "without imports", "ratio", "bytes a further label"]


def restrict(limit: int) -> None:
    """Leave this process `limit` bytes, what it has now included; what does not fit is a MemoryError. Linux only.

    The system counts what is private and can be written, used or not: what the imports only reserved is added. Pages
    of files that are read from now on do not count: the system drops them when it needs room.
    """
    status = Path("/proc/self/status").read_text()
    reserved, used = (int(status.partition(f"{name}:")[2].split()[0]) * 1024 for name in ("VmData", "VmRSS"))
    resource.setrlimit(resource.RLIMIT_DATA, (limit - used + reserved,) * 2)


def child(options: argparse.Namespace) -> None:
    """Run one step, and print what it took."""
    if options.limit:
        restrict(int(options.limit * GB))
    torch.set_num_threads(1)
    work = Work(**{name: getattr(options, name) for name in Work._fields})
    before, clock, cpu = peak(resource.RUSAGE_SELF), time.perf_counter(), time.process_time()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            STEPS[options.step](work)
    except (ValueError, MemoryError) as error:
        sys.exit(f"{options.step}: {error}")
    took = {"clock": time.perf_counter() - clock, "cpu": time.process_time() - cpu}
    most = peak(resource.RUSAGE_SELF)
    print(json.dumps({**took, "peak": most, "own": most - before}))


def measure(options: argparse.Namespace, step: str, folder: str, images: int, classes: int) -> dict[str, float] | None:
    """Run a step as a child; None if it failed, and said why."""
    given = {**vars(options), "step": step, "folder": folder, "images": images, "classes": classes}
    given["options"] = json.dumps(options.options)
    words = [f"--{name}={value}" for name, value in given.items()]
    done = subprocess.run([sys.executable, "-m", "benchmarks.scale", *words], stdout=subprocess.PIPE, text=True)
    took: dict[str, float] | None = json.loads(done.stdout) if done.returncode == 0 else None
    return took


def columns(took: dict[str, float], first: dict[str, float]) -> list[str]:
    """The figures of a step beside the same step at the first size."""
    further = took["labels"] - first["labels"]
    return [
        f"{took['clock']:.1f}",
        f"{took['cpu']:.1f}",
        f"{took['cpu'] / first['cpu']:.1f}",
        f"{took['peak'] / MB:,.0f}",
        f"{took['own'] / MB:,.0f}",
        f"{took['own'] / first['own']:.1f}",
        f"{(took['own'] - first['own']) / further:.0f}" if further else "",
    ]


def run(options: argparse.Namespace, sizes: list[tuple[int, int]]) -> None:
    """Print a line a size and step; ratios are to the step at the first size, those of memory without the imports."""
    print(f"| images | classes | step | {' | '.join(TITLES)} |\n|--:|--:|---|{'--:|' * len(TITLES)}")
    first: dict[str, dict[str, float]] = {}
    for images, classes in sizes:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            if measure(options, "make", folder, images, classes) is None:
                raise SystemExit("there are no images and labels to measure with")
            for step in MEASURED:
                took = measure(options, step, folder, images, classes)
                if took is not None:
                    took["labels"] = images * classes
                cells = ["failed"] if took is None else columns(took, first.setdefault(step, took))
                print(f"| {images:,} | {classes:,} | {step} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Run all steps at four sizes, or at one; or as a child one of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--images", type=int, default=10_000, help="training images")
    parser.add_argument("--classes", type=int, default=250)
    parser.add_argument("--times", type=int, default=4, help="so many times the images, the classes, and both")
    parser.add_argument("--limit", type=float, default=0, help="GB of memory; only the size that is given")
    parser.add_argument("--pixels", type=int, default=8)
    parser.add_argument("--backbone", default="test_resnet")
    parser.add_argument("--batch", type=int, default=250)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--method", default="pseudo_label")
    parser.add_argument("--options", type=json.loads, default='{"start_epoch": 0}', help="the method's, as JSON")
    parser.add_argument("--folder", type=Path, default=tempfile.gettempdir(), help="where temporary files go")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        child(options)
        return
    more = (1,) if options.limit else (1, options.times)
    run(options, [(options.images * n, options.classes * m) for m in more for n in more])


if __name__ == "__main__":
    main()
