"""Errors that a user can mend: all faults of a file together, and each error as one line on the terminal."""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

SHOWN = 20
USER_ERRORS = (ValueError, OSError, FloatingPointError, MemoryError)
TRACEBACK = "MLML_TRACEBACK"  # set in the environment, it asks for the traceback of such an error


def raise_errors(heading: str, faults: Sequence[str]) -> None:
    """Raise a ValueError with `heading`, the first `SHOWN` faults, one a line, and the number of the others.

    Does nothing if there are no faults.
    """
    if faults:
        more = [f"... and {len(faults) - SHOWN} more"] if len(faults) > SHOWN else []
        raise ValueError("\n".join([heading, *faults[:SHOWN], *more]))


def message(error: BaseException) -> str:
    """The text of an error, without the number that the operating system gives it."""
    return re.sub(r"^\[Errno \d+\] ", "", str(error))


@contextmanager
def one_line(name: str) -> Iterator[None]:
    """End the process on an error that a user can mend: ``name: message`` on standard error, exit status 1.

    Ctrl-C ends it with status 130. With `TRACEBACK` in the environment the error is raised.
    """
    try:
        yield
    except KeyboardInterrupt as stop:
        print(f"{name}: interrupted; {stop}" if str(stop) else f"{name}: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        raise  # whoever read the output has gone, as in `mlml results | head -1`: typer ends without a word
    except USER_ERRORS as error:
        if TRACEBACK in os.environ:
            raise
        print(f"{name}: {message(error)}", file=sys.stderr)
        sys.exit(1)
