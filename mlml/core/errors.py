"""Reporting all faults of a file together, not one a run."""

from collections.abc import Sequence

SHOWN = 20


def raise_errors(what: str, faults: Sequence[str]) -> None:
    """Raise ValueError with the first `SHOWN` faults, a line each, and how many more there are; none: return."""
    if faults:
        more = [f"... and {len(faults) - SHOWN} more"] if len(faults) > SHOWN else []
        raise ValueError("\n".join([what, *faults[:SHOWN], *more]))
