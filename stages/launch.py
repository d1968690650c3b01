"""A stage in several processes, each with a share of the work."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mlml import parallel
from mlml.threads import cores


@contextmanager
def shared(count: object) -> Iterator[None]:
    """Do the block in `count` processes: start this command again by torchrun, unless it was started by it.

    Raises:
        ValueError: not a number of processes.
    """
    if type(count) is not int or count < 1:
        raise ValueError(f"processes: {count!r} is not allowed; must be a whole number of at least 1")
    if count > 1 and "TORCHELASTIC_RUN_ID" not in os.environ:
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores() // count)))
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
        os.execv(sys.executable, [*torchrun, "-m", f"stages.{Path(sys.argv[0]).stem}", *sys.argv[1:]])
    with parallel.group():
        yield
