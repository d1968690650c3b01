"""Many runs on one prepared data set, several at a time on one device; on a CPU they share the cores."""

import csv
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from mlml.commands import prepared
from mlml.commands.grid import KEYS, Job
from mlml.commands.results import DATA
from mlml.commands.run import RESULTS, run
from mlml.core.errors import TRACEBACK, USER_ERRORS, message
from mlml.core.progress import progress
from mlml.datasets.files.regular_files import kind
from mlml.training.features import FOLDER, Features
from mlml.training.history import SCORES

logger = logging.getLogger(__name__)

# `DATA` is the state of the data set (`mlml.commands.prepared.state`).
COLUMNS = [*KEYS, DATA, *RESULTS]
_KEPT = "what is done is kept"
_LOOK = 0.5  # seconds between two looks at how far the processes are
_features = Features(FOLDER)  # of this process


def done(file: Path, state: str) -> set[tuple[str, ...]]:
    """The keys of the runs on this state of the data that have a row in `file`.

    Raises:
        ValueError: it is no file or has other columns, or its last line is cut off. An older file does not say which
            data its rows are of: they are not taken for runs on this one.
    """
    if what := kind(file):
        raise ValueError(f"{file} is {what}; name a file")
    if not file.exists() or not file.stat().st_size:
        return set()
    text = file.read_text("utf-8")
    rows = csv.DictReader(text.splitlines())
    if rows.fieldnames == [*KEYS, *RESULTS]:
        raise ValueError(f"{file} has no column {DATA!r}, which tells states of a data set apart; name another file")
    if rows.fieldnames != COLUMNS:
        raise ValueError(f"{file} has other columns; name another file")
    if not text.endswith("\n"):
        raise ValueError(f"{file}: the last line is cut off; remove it")
    return {tuple(row[name] for name in KEYS) for row in rows if row[DATA] == state}


def run_all(jobs: list[Job], data: Path, state: str, processes: int, results: Path) -> int:
    """Do the runs, and add a row for each to `results` when it is done.

    Args:
        data: see `mlml.commands.run.run`.
        state: that of `data`, for the rows.
        processes: how many runs are done at a time.
        results: a table with the columns `COLUMNS`.

    Returns:
        how many runs have failed; the reasons are on standard error.

    Raises:
        ValueError: a process was killed, or the data were changed meanwhile.
    """
    stamps = prepared.stamps(data)
    new, failed, started = not results.exists() or not results.stat().st_size, 0, time.monotonic()
    with (
        results.open("a", newline="", encoding="utf-8") as file,
        progress("runs", len(jobs), "runs", log=False) as advance,
        _outcomes(jobs, data, processes, lambda: advance(0)) as outcomes,
    ):
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if new:
            writer.writeheader()
            file.flush()
        for number, (job, outcome) in enumerate(outcomes, 1):
            if prepared.stamps(data) != stamps:
                raise ValueError(
                    f"{data} was changed while runs were on; {_KEPT}: the same command goes on with the new"
                )
            about = f"run {number}/{len(jobs)} {' '.join(filter(None, job.key[:5]))}"
            if isinstance(outcome, str):
                failed += 1
                tqdm.write(f"{about}: {outcome}", sys.stderr)
            else:
                writer.writerow({**dict(zip(KEYS, job.key, strict=True)), DATA: state, **outcome})
                file.flush()
                validation = " ".join(f"{outcome[name]:.2f}" for name in SCORES if name in outcome)
                scores = f"validation {validation}, test {outcome['mAP']:.2f}"
                seconds = (time.monotonic() - started) / number * (len(jobs) - number)
                left = f"; about {tqdm.format_interval(seconds)} left" if seconds else ""
                tqdm.write(f"{about}: {scores}{left}", sys.stdout)
                sys.stdout.flush()
            advance(1)
    return failed


@contextmanager
def _outcomes(
    jobs: list[Job], data: Path, processes: int, watch: Callable[[], None]
) -> Iterator[Iterator[tuple[Job, dict[str, Any] | str]]]:
    """The results of `jobs`, or why there are none, as they come; `watch` is called while none comes.

    An error in the block ends the processes: they would train to the end, which nobody waits for.
    """
    spawn = multiprocessing.get_context("spawn")  # a GPU cannot be used in a forked process
    counters = [spawn.Value("q", 0) for _ in range(3)]
    with (
        _features_shown(*counters) as look,
        ProcessPoolExecutor(processes, spawn, _start, (processes, counters)) as pool,
    ):

        def results(waiting: set[Future]) -> Iterator[tuple[Job, dict[str, Any] | str]]:
            while waiting:
                ended, waiting = wait(waiting, _LOOK, FIRST_COMPLETED)
                look()
                watch()
                yield from (future.result() for future in ended)

        try:
            with _not_stopped():
                futures = {pool.submit(_work, job, data) for job in jobs}
            yield results(futures)
        except BaseException as error:
            for child in multiprocessing.active_children():
                child.kill()  # which cannot be put off
            pool.shutdown(wait=False, cancel_futures=True)
            if isinstance(error, KeyboardInterrupt):
                raise KeyboardInterrupt(_KEPT) from None
            if isinstance(error, BrokenProcessPool):
                raise ValueError(
                    f"a process was killed, for want of memory perhaps; {_KEPT}: again, with fewer --jobs"
                ) from None
            raise


@contextmanager
def _not_stopped() -> Iterator[None]:
    """Put Ctrl-C and SIGTERM off until the end of the block, in which processes are started.

    A process that is half started when the first one ends would report that. And Ctrl-C, which the terminal sends to
    all of them, is put off for ever in those that are started here: the first process ends the others.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _features_shown(
    wanted: "Synchronized[int]", computed: "Synchronized[int]", loaded: "Synchronized[int]"
) -> Iterator[Callable[[], None]]:
    """Give a function that shows how many features all processes have computed since it was called last, and once
    that some were read from the disk.
    """
    total = count = told = 0
    advance: Callable[..., None] | None = None
    with ExitStack() as bar:

        def look() -> None:
            nonlocal total, count, told, advance
            # Without the locks: a process that was killed may hold them.
            if not told and (told := loaded.get_obj().value):
                logger.info(f"features are read from {FOLDER}/")
            new_total, new_count = wanted.get_obj().value, computed.get_obj().value
            if (new_total, new_count) != (total, count):
                advance = advance or bar.enter_context(progress("features", 0, "images"))
                advance(new_count - count, new_total - total)
                total, count = new_total, new_count

        yield look


def _start(processes: int, counters: "list[Synchronized[int]]") -> None:
    """Prepare a process of the pool. It reports to the first one and shows nothing: logging is not set up here."""
    global _features
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    tqdm.set_lock(threading.RLock())  # not one between processes, which a process that is ended leaves behind
    torch.set_num_threads(max(1, torch.get_num_threads() // processes))

    def report(*counts: int) -> None:
        for counter, more in zip(counters, counts, strict=True):
            with counter.get_lock():
                counter.value += more

    _features = Features(FOLDER, report)


def _work(job: Job, data: Path) -> tuple[Job, dict[str, Any] | str]:
    """The result of a run, or why it has none."""
    try:
        return job, run(job, data, _features)
    except Exception as error:  # the other runs go on
        expected = isinstance(error, USER_ERRORS) and TRACEBACK not in os.environ
        return job, message(error) if expected else traceback.format_exc()
