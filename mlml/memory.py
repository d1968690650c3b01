"""Running out of memory, said in one line."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

# What torch says that has no exception of its own: the CPU's allocator, pinned memory, and libraries on a GPU.
SIGNS = (
    "can't allocate memory",
    "CUDA error: out of memory",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_ALLOC_FAILED",
)


@contextmanager
def enough_memory(remedy: str) -> Iterator[None]:
    """Make one of the exceptions for a lack of memory: MemoryError, with what torch says and the `remedy`."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        lacking = isinstance(error, torch.OutOfMemoryError | MemoryError) or any(each in str(error) for each in SIGNS)
        if not lacking:
            raise
        said = (str(error) or "out of memory").splitlines()[0].rpartition("DefaultCPUAllocator: ")[2][:200]
        raise MemoryError(f"{said}: {remedy}") from error
