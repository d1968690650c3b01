"""Errors that a user can mend: all faults of a file together, and each error as one line on the terminal."""

import errno
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

SHOWN = 20
_LONGEST = 200  # characters of a text from outside in a message
USER_ERRORS = (ValueError, OSError, FloatingPointError, MemoryError)
TRACEBACK = "MLML_TRACEBACK"  # set in the environment, it asks for the traceback of such an error

# What to do about the system's errors in writing a file
REMEDIES = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "remove files of yours, or ask for a larger quota",
    errno.EFBIG: "raise the limit of a file's size (ulimit -f), or use another file system",
    errno.EACCES: "see to its permissions",
    errno.EPERM: "see to its permissions",
    errno.EROFS: "mount it for writing",
}
# Control characters but newline and tab, marks that reverse the direction of text, halves of characters
_CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def raise_errors(heading: str, faults: Sequence[str]) -> None:
    r"""Raise a ValueError with `heading`, the first `SHOWN` faults, one a line, and the number of the others.

    A line break within a fault, as a file's name may have it, becomes ``\n``. Does nothing if there are no faults.
    """
    if faults:
        more = [f"... and {len(faults) - SHOWN} more"] if len(faults) > SHOWN else []
        lines = [fault.replace("\n", "\\n") for fault in faults[:SHOWN]]
        raise ValueError("\n".join([heading, *lines, *more]))


def quoted(text: str) -> str:
    """A text from outside for a message: in quotes, control characters escaped, cut to 200 characters."""
    return repr(text) if len(text) <= _LONGEST else f"{text[:_LONGEST]!r}... ({len(text):,} characters)"


def escaped(text: str) -> str:
    r"""What is printed, with control characters but newline and tab as \x1b: they could take over a terminal."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def message(error: BaseException) -> str:
    """The text of an error, without the number that the operating system gives it, but with a remedy."""
    text = escaped(re.sub(r"^\[Errno \d+\] ", "", str(error))) or "out of memory"
    if not isinstance(error, OSError) or error.errno not in REMEDIES:
        return text
    return f"{text}{_free(error)}; {REMEDIES[error.errno]}"


def _free(error: OSError) -> str:
    """How much room there is where a full disk was written to."""
    if error.errno != errno.ENOSPC or not isinstance(error.filename, str):
        return ""
    try:
        return f" ({shutil.disk_usage(Path(error.filename).parent).free / 1e6:,.0f} MB are free)"
    except OSError:
        return ""


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
