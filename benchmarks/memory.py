"""How much memory processes took, as the system counted."""

import resource
import sys


def peak(who: int) -> int:
    """Bytes at most of RUSAGE_SELF, or of the largest of RUSAGE_CHILDREN."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(who).ru_maxrss * unit
