"""Log lines, and the progress of long work: a bar in a terminal, a line every tenth in a log file.

The library reports through `logging`; nothing is shown until a command or a stage calls `log_to_terminal`. All of it
goes to standard error: standard output is for results.
"""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import tqdm

from mlml.core.errors import escaped

logger = logging.getLogger(__name__)


class _TerminalHandler(logging.Handler):
    """Write messages to standard error, above a progress bar if there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            tqdm.write(escaped(self.format(record)), file=sys.stderr)
        except Exception:
            self.handleError(record)


def log_to_terminal() -> None:
    """Show the messages and the progress of `mlml`. A command or a stage calls it once."""
    log = logging.getLogger("mlml")
    log.setLevel(logging.INFO)
    log.handlers = [_TerminalHandler()]


@contextmanager
def progress(
    what: str, total: int, unit: str, done: int = 0, *, log: bool = True, shown: bool = True
) -> Iterator[Callable[..., None]]:
    """Show the progress of `what` on standard error.

    Args:
        total, done: in `unit`; `done` is where it starts.
        log: False for work that reports in another way: no lines in a log, and the bar vanishes at the end.
        shown: False shows nothing.

    Yields:
        advance(count, more=0, **facts): `count` more are done, of a total that has grown by `more`; `facts` appear
        behind the bar.
    """
    terminal = sys.stderr.isatty()
    bar_shown = shown and terminal and logger.isEnabledFor(logging.INFO)
    lines = shown and log and not terminal
    scale = unit == "B"
    with tqdm(
        desc=what,
        initial=done,
        total=total,
        unit=unit if scale else f" {unit}",
        unit_scale=scale,
        leave=log,
        disable=not bar_shown,
        miniters=0,  # the clock alone decides when the bar is drawn anew
        smoothing=0,  # the time left follows from the mean rate: of two runs that end together the last took no time
    ) as bar:

        def advance(count: int, more: int = 0, **facts: str) -> None:
            nonlocal done, total
            before, done, total = done, done + count, total + more
            bar.total = total
            if facts:
                bar.set_postfix(facts, refresh=False)
            bar.update(count)
            if lines and total and done * 10 // total > before * 10 // total:
                logger.info(f"{what}: {done * 100 // total}% of {total:,} {'bytes' if scale else unit}")

        yield advance
