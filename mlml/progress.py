"""Progress of long work: a bar in a terminal, a line now and then in a log."""

import sys
from collections.abc import Iterable
from typing import Any

from tqdm import tqdm

LOG_SECONDS = 30.0  # in a log every refresh is a line of its own


def progress(items: Iterable[Any], what: str, total: int, unit: str) -> "tqdm[Any]":
    """Iterate over `items` with a progress bar on standard error."""
    terminal = sys.stderr.isatty()
    every = 0.1 if terminal else LOG_SECONDS
    return tqdm(items, what, total, leave=False, unit=unit, mininterval=every, maxinterval=every, delay=every)
