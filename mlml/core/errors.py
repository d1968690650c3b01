"""One error for all faults of a file, so that a user sees them together."""

from collections.abc import Sequence

SHOWN = 20


def raise_errors(heading: str, faults: Sequence[str]) -> None:
    """Raise a ValueError with `heading`, the first `SHOWN` faults, one a line, and the number of the others.

    Does nothing if there are no faults.
    """
    if faults:
        more = [f"... and {len(faults) - SHOWN} more"] if len(faults) > SHOWN else []
        raise ValueError("\n".join([heading, *faults[:SHOWN], *more]))
