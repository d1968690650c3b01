"""Which device a run uses, its random numbers, and running out of its memory."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from mlml.runtime import parallel

# What torch says that has no exception of its own: the CPU's allocator, pinned memory, and libraries on a GPU.
SIGNS = (
    "can't allocate memory",
    "CUDA error: out of memory",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_ALLOC_FAILED",
)


def device_for(name: str) -> torch.device:
    """The device called `name`; "auto" is a GPU where there is one.

    Of several processes on a machine each gets a GPU of its own.

    Raises:
        ValueError: unknown, or not on this machine.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and parallel.world_size() > 1:
        name = f"cuda:{os.environ['LOCAL_RANK']}"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            f"device: {name!r} is not allowed; it must be auto, or one that is here: cpu, cuda, cuda:1, ..."
        ) from error
    device = torch.device(name)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device


def seed_everything(seed: int) -> None:
    """Seed torch and take its deterministic algorithms."""
    torch.manual_seed(seed)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it, products on a GPU may differ
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # nobody reads such memory
    torch.backends.cudnn.benchmark = False


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
