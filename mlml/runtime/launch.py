"""Starting a stage in several processes."""

import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import main as torchrun

from mlml.core.threads import cores
from mlml.runtime import parallel

FEW = 8  # processes that every machine may start, for tests


@contextmanager
def shared(count: object) -> Iterator[None]:
    """Run the block in `count` processes: torchrun starts this command again, unless it has started it already.

    Raises:
        ValueError: not a number of processes, or far more than this machine has processors.
    """
    checked = check_processes(count)
    if checked > 1 and "TORCHELASTIC_RUN_ID" not in os.environ:
        sys.exit(_torchrun(checked))
    with parallel.group():
        yield


def check_processes(count: object) -> int:
    """Return `count` if it is a number of processes for this machine.

    Raises:
        ValueError: as `shared`.
    """
    if type(count) is not int or count < 1:
        raise ValueError(f"processes: {count!r} is not allowed; must be a whole number of at least 1")
    gpus = torch.cuda.device_count() if count > 1 else 0
    if count > (most := max(gpus, cores(), FEW)):
        raise ValueError(
            f"processes: {count} is not allowed; must be {most} at most on this machine, which has {gpus} GPUs and "
            f"{cores()} CPU cores"
        )
    return count


def _torchrun(count: int) -> str | int:
    """Exit status 0 when all processes have done their work, 130 after an interruption, or an error message."""
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores() // count)))
    stage = Path(sys.argv[0]).stem
    logging.getLogger("torch.distributed.elastic").setLevel(logging.ERROR)  # its warnings are in words for others
    try:
        # torchrun would leave its folder in the temporary one.
        with tempfile.TemporaryDirectory(prefix="mlml-") as logs:
            group = ["--standalone", "--nproc-per-node", str(count), "--log-dir", logs]
            torchrun([*group, "-m", f"stages.{stage}", *sys.argv[1:]])
    except SignalException:
        return 130  # the main process has said what is kept
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        return f"{stage}: process {rank} of {count} ended with {failure.exitcode}, which ended the others"
    return 0
