"""Speed on a machine that is busy with other work: how its threads wait for each other decides it."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import mlml  # noqa: F401  # sets how threads wait, before torch is loaded

BATCH = 16
WAITING = {
    "as mlml sets it": {},
    "torch's default": {"GOMP_SPINCOUNT": "300000"},
    "OMP_WAIT_POLICY=PASSIVE": {"OMP_WAIT_POLICY": "PASSIVE"},
    "OMP_NUM_THREADS=1": {"OMP_NUM_THREADS": "1"},
}


def work(what: str, seconds: float) -> None:
    """Train or evaluate for some seconds; prints images per second. A process of its own: see `__main__` below."""
    import torch

    from mlml.model.classifier import Classifier

    torch.manual_seed(0)
    model = Classifier("resnet10t", 10)
    optimizer = torch.optim.Adam(model.parameters())
    images = torch.randint(0, 256, (BATCH, 64, 64, 3), dtype=torch.uint8)

    def train() -> None:
        optimizer.zero_grad()
        model.train()(images).sigmoid().mean().backward()
        optimizer.step()

    step = train if what == "train" else torch.inference_mode()(lambda: model.eval()(images))
    for _ in range(5):
        step()
    start, count = time.perf_counter(), 0
    while (passed := time.perf_counter() - start) < seconds:
        step()
        count += BATCH
    print(count / passed)


@contextmanager
def busy(cores: int) -> Iterator[None]:
    """Other processes that compute all the time."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def speed(what: str, waiting: str, runs: int, seconds: float) -> float:
    """Images per second of `runs` processes at once, together."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("OMP_", "GOMP_"))}
    words = [sys.executable, "-m", "benchmarks.busy", what, str(seconds)]
    environment = {**clean, **WAITING[waiting]}
    started = [subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(runs)]
    return sum(float(process.communicate()[0]) for process in started)


def measure(cores: int, rounds: int, seconds: float) -> Iterator[tuple[str, str, str, float]]:
    """Work, state of the machine, how threads wait, and the median of the rounds' speeds; they take turns."""
    states = {"quiet": (0, 1), "one busy core": (1, 1), "all cores busy": (cores, 1), "two runs at once": (0, 2)}
    for what in ("train", "evaluate"):
        for state, (others, runs) in states.items():
            with busy(others):
                turns = [[speed(what, waiting, runs, seconds) for waiting in WAITING] for _ in range(rounds)]
            for waiting, speeds in zip(WAITING, zip(*turns, strict=True), strict=True):
                yield what, state, waiting, statistics.median(speeds)


if __name__ == "__main__":
    work(sys.argv[1], float(sys.argv[2]))
