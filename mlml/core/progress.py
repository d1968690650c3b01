"""What a user sees while long work runs: log lines, and a progress bar or, in a log file, a line every tenth.

The library reports through `logging`; nothing is shown until a command or a stage calls `log_to_terminal`. All of it
goes to standard error: standard output is for results.
"""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import tqdm

logger = logging.getLogger(__name__)


class _TerminalHandler(logging.Handler):
    """Writes messages to standard error, above a progress bar if there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            tqdm.write(self.format(record), file=sys.stderr)
        except Exception:
            self.handleError(record)


def log_to_terminal(level: int = logging.INFO) -> None:
    """Show the messages of `mlml` from `level` on; called once, by a command or a stage."""
    log = logging.getLogger("mlml")
    log.setLevel(level)
    log.handlers = [_TerminalHandler()]


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
                logger.info(f"{what}: {done * 100 // total}% of {total:,} {'bytes' if scale else unit}")

        yield advance
