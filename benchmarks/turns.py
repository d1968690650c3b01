"""Contestants that take turns, and functions that run in a process of their own."""

import multiprocessing
import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

Contestant = Callable[[], float]
"""Does its work once and returns its speed, in items per second."""


def timed(work: Callable[[], Any], count: int = 1) -> Contestant:
    """The contestant that calls `work`, which does `count` items."""

    def contestant() -> float:
        start = time.perf_counter()
        work()
        return count / (time.perf_counter() - start)

    return contestant


def take_turns(contestants: Mapping[str, Contestant], rounds: int) -> dict[str, list[float]]:
    """The speeds of each contestant, one a round.

    They take turns, so a busy moment of the machine hits all of them. The first round warms up and does not count.
    """
    turns = [{name: contestant() for name, contestant in contestants.items()} for _ in range(rounds + 1)]
    return {name: [turn[name] for turn in turns[1:]] for name in contestants}


def print_turns(contestants: Mapping[str, Contestant], rounds: int, unit: str) -> None:
    """Print the speed of each contestant and its ratio to the first one: median (lowest - highest round)."""
    speeds = take_turns(contestants, rounds)
    first = next(iter(speeds.values()))
    for name, each in speeds.items():
        ratios = [speed / base for speed, base in zip(each, first, strict=True)]
        print(f"{name:26}{_spread(each):>36} {unit}{_spread(ratios):>28}", flush=True)


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):,.2f} ({min(values):,.2f} - {max(values):,.2f})"


class Usage(NamedTuple):
    """What a function used.

    Attributes:
        clock, cpu: seconds.
        memory: bytes by which the peak of its process grew.
        peak: the same with what the imports take.
    """

    clock: float
    cpu: float
    memory: int
    peak: int


def in_own_process(work: Callable[..., object], *arguments: Any) -> Usage:
    """Call a function in a new process, whose peak memory is then the function's. Linux only."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_usage, work, *arguments).result()


def _usage(work: Callable[..., object], *arguments: Any) -> Usage:
    before, clock, cpu = _peak(), time.perf_counter(), time.process_time()
    work(*arguments)
    return Usage(time.perf_counter() - clock, time.process_time() - cpu, _peak() - before, _peak())


def _peak() -> int:
    # Unlike getrusage's, this peak does not begin with the memory of the parent.
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024
