"""Work in threads that runs ahead of whoever takes the results."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
AHEAD = 2  # groups


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(
    pool: ThreadPoolExecutor, work: Callable[[_Item], _Result], groups: Iterable[Sequence[_Item]], items: int
) -> Iterator[list[_Result]]:
    """For each group in turn: the results of ``work(item)`` for its items.

    While the caller looks at one, the next `AHEAD` groups are being worked on, or more, if they have fewer than `items`
    items together; never all of them, however many there are. An error of `work` is raised where the group's
    results would be. A caller that stops, or an error, cancels what has not begun.
    """
    waiting: deque[list[Future[_Result]]] = deque()
    try:
        for group in groups:
            waiting.append([pool.submit(work, item) for item in group])
            if len(waiting) > AHEAD and sum(map(len, waiting)) - len(waiting[0]) >= items:
                yield _next(waiting)
        while waiting:
            yield _next(waiting)
    finally:
        for future in (future for futures in waiting for future in futures):
            future.cancel()


def _next(waiting: deque[list[Future[_Result]]]) -> list[_Result]:
    results = [future.result() for future in waiting[0]]
    waiting.popleft()  # only now: an error leaves the rest of the group to be cancelled
    return results
