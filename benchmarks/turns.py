"""Contestants that take turns, so that a busy moment of the machine hits all of them."""

import statistics
import time
from collections.abc import Callable, Mapping


def take_turns(contestants: Mapping[str, Callable[[], int]], rounds: int) -> dict[str, list[float]]:
    """What each does a second, in each round.

    Args:
        contestants: each does its work and returns how much it was. The first round warms up and does not count.
    """
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, work in contestants.items():
            start = time.perf_counter()
            done = work()
            if number:
                rates[name].append(done / (time.perf_counter() - start))
    return rates


def once(work: Callable[[], object]) -> Callable[[], int]:
    """The same, as a contestant whose work counts as one."""

    def counted() -> int:
        work()
        return 1

    return counted


def ratio(rates: Mapping[str, list[float]], one: str, other: str) -> str:
    """Median, least and most of the rounds' ratios."""
    ratios = [a / b for a, b in zip(rates[one], rates[other], strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} - {max(ratios):.2f})"


def rate(rates: Mapping[str, list[float]], name: str) -> str:
    """Median, least and most."""
    found = rates[name]
    return f"{statistics.median(found):,.1f} ({min(found):,.1f} - {max(found):,.1f})"
