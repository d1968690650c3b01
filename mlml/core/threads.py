"""Work in threads that runs ahead of its consumer."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def cores() -> int:
    """The number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(
    pool: ThreadPoolExecutor, work: Callable[[_Item], _Result], groups: Iterable[Sequence[_Item]], items: int
) -> Iterator[list[_Result]]:
    """Map `work` over the items of each group in threads; yields the results group by group, in order.

    Args:
        items: while the caller uses one group's results, so many items of the next groups are submitted, rounded up
            to whole groups. (`Executor.map` submits all at once, and their results would fill the memory; it takes a
            bound since Python 3.14.)

    Raises:
        An error of `work`, in place of its group's results. Then, and if the caller stops, later groups are cancelled.
    """
    waiting: deque[list[Future[_Result]]] = deque()
    try:
        for group in groups:
            waiting.append([pool.submit(work, item) for item in group])
            if sum(map(len, waiting)) - len(waiting[0]) >= items:
                yield [future.result() for future in waiting.popleft()]
        while waiting:
            yield [future.result() for future in waiting.popleft()]
    finally:
        for futures in waiting:
            for future in futures:
                future.cancel()
