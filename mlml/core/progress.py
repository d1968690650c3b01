"""Progress of long work: a bar in a terminal, a line every tenth in a log."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import tqdm


def say(line: str) -> None:
    """Print a line to standard error at once, as long work goes on."""
    tqdm.write(line, file=sys.stderr)


@contextmanager
def progress(
    what: str, total: int, unit: str, done: int = 0, *, log: bool = True, shown: bool = True
) -> Iterator[Callable[..., None]]:
    """Show how far `what` has come, on standard error.

    Args:
        total, done: in `unit`; `done` is where it starts.
        log: whether a log, too, gets lines; where something else is printed often enough, it need not.
        shown: False: nothing is shown.

    Yields:
        advance(count, **facts): count more are done; `facts` appear behind the bar.
    """
    terminal = sys.stderr.isatty()
    lines = shown and log and not terminal
    scale = unit == "B"
    with tqdm(
        desc=what, initial=done, total=total, unit=unit, unit_scale=scale, leave=log, disable=not (shown and terminal)
    ) as bar:

        def advance(count: int, **facts: str) -> None:
            nonlocal done
            before, done = done, done + count
            if facts:
                bar.set_postfix(facts, refresh=False)
            bar.update(count)
            if lines and done * 10 // total > before * 10 // total:
                say(f"{what}: {done * 100 // total}% of {total:,} {'bytes' if scale else unit}")

        yield advance
