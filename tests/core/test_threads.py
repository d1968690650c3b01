"""Work that runs ahead: in order, by so much and no more, and errors arrive where they belong."""

import gc
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from mlml.core.threads import cores, in_order


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(3) as pool:
        yield pool


def soon(condition: Callable[[], bool]) -> bool:
    """Whether it comes true; waits for long, as a slow machine is no failure."""
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.001)
    return condition()


def test_results_are_in_order_whatever_ends_first(pool: ThreadPoolExecutor) -> None:
    def work(item: int) -> int:
        time.sleep(0.003 * (item % 3))
        return item * item

    groups = [range(first, first + first % 4) for first in range(20)]
    expected = [[item * item for item in group] for group in groups]
    assert list(in_order(pool, work, groups, 1)) == expected
    assert list(in_order(pool, work, iter(groups), 100)) == expected
    assert list(in_order(pool, work, [], 1)) == []


@pytest.mark.parametrize(("items", "most"), [(1, 2), (8, 3), (9, 4), (40, 11)])
def test_it_runs_ahead_but_not_far(pool: ThreadPoolExecutor, items: int, most: int) -> None:
    asked, done = [], []

    def groups() -> Iterator[list[int]]:
        for number in range(100):
            asked.append(number)
            yield [number] * 4

    stream = in_order(pool, done.append, groups(), items)
    for taken in range(1, 101):
        next(stream)
        ahead = min(100, taken - 1 + most)
        assert len(asked) == ahead
        assert soon(lambda count=4 * ahead: len(done) == count)  # without being asked again


def test_an_error_comes_at_its_place_and_cancels_the_rest(pool: ThreadPoolExecutor) -> None:
    started, go = [], threading.Event()

    def work(item: int) -> int:
        started.append(item)
        if item == 3:
            raise KeyError("three")
        if item > 3:
            go.wait()
        return item

    stream = in_order(pool, work, ([item] for item in range(100)), 20)
    results = [next(stream) for _ in range(3)]
    assert results == [[0], [1], [2]]
    with pytest.raises(KeyError, match="three"):
        next(stream)
    go.set()
    with pytest.raises(StopIteration):
        next(stream)
    assert pool.submit(lambda: 7).result() == 7
    assert len(started) <= 7  # three threads had one each


def test_an_error_of_the_caller_s_iterator_comes_through(pool: ThreadPoolExecutor) -> None:
    def groups() -> Iterator[list[int]]:
        yield from ([1], [2], [3], [4])
        raise OSError("no more")

    stream = in_order(pool, abs, groups(), 1)
    assert next(stream) == [1]
    with pytest.raises(OSError, match="no more"):
        list(stream)


def test_a_caller_that_stops_leaves_nothing_to_do(pool: ThreadPoolExecutor) -> None:
    started, go = [], threading.Event()

    def work(item: int) -> None:
        started.append(item)
        if item:
            go.wait()

    stream = in_order(pool, work, ([item] for item in range(100)), 50)
    next(stream)
    assert soon(lambda: len(started) == 4)
    stream.close()
    go.set()
    assert pool.submit(lambda: 7).result() == 7
    assert len(started) == 4

    stream = in_order(pool, work, ([item] for item in range(100)), 50)
    next(stream)
    del stream  # as a loop that is left
    gc.collect()
    assert pool.submit(lambda: 7).result() == 7
    assert pool._work_queue.empty()


def test_cores() -> None:
    assert cores() >= 1
