"""Running out of memory, said in one line."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def enough_memory(remedy: str) -> Iterator[None]:
    """Make one of the exceptions for a lack of memory: MemoryError, with what torch says and the `remedy`."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, torch.OutOfMemoryError) and "can't allocate memory" not in str(error):
            raise
        said = str(error).splitlines()[0].rpartition("DefaultCPUAllocator: ")[2][:200]
        raise MemoryError(f"{said}: {remedy}") from error
