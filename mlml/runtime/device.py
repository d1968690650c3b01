"""The device of a run: choosing it, seeding it, and errors when its memory runs out."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from mlml.runtime import parallel

# Messages of torch's that come without an exception of their own: from the CPU's allocator and a GPU's libraries.
OUT_OF_MEMORY = (
    "can't allocate memory",
    "CUDA error: out of memory",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_ALLOC_FAILED",
)


def device_for(name: str) -> torch.device:
    """The device called `name`; "auto" is a GPU if there is one.

    Each of several processes on a machine gets a GPU of its own.

    Raises:
        ValueError: no such device on this machine, or one GPU for several processes.
    """
    if not isinstance(name, str):  # torch takes None for a CPU and a number for a GPU
        raise ValueError(f"device: {name!r} is not allowed; it must be auto, cpu, cuda, cuda:1, ...")
    if parallel.world_size() > 1 and name.startswith("cuda:"):
        raise ValueError(f"device: {name!r} is not allowed with several processes; cuda gives each a GPU")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and parallel.world_size() > 1:
        name = f"cuda:{os.environ['LOCAL_RANK']}"
    try:
        torch.empty(0, device=name).cpu()  # "meta" has no memory to read
    except Exception as error:  # each kind of device has its own
        raise ValueError(
            f"device: {name!r} is not allowed; it must be auto, or one that is here: cpu, cuda, cuda:1, ..."
        ) from error
    device = torch.device(name)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device


def seed_everything(seed: int) -> None:
    """Seed torch and select its deterministic algorithms."""
    torch.manual_seed(seed)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # or matrix products on a GPU may differ
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # it is never read
    torch.backends.cudnn.benchmark = False


@contextmanager
def enough_memory(remedy: str) -> Iterator[None]:
    """Turn the several exceptions for a lack of memory into MemoryError: torch's message, then `remedy`."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        out_of_memory = isinstance(error, torch.OutOfMemoryError | MemoryError)
        if not out_of_memory and not any(each in str(error) for each in OUT_OF_MEMORY):
            raise
        message = (str(error) or "out of memory").splitlines()[0].rpartition("DefaultCPUAllocator: ")[2][:200]
        raise MemoryError(f"{message}: {remedy}") from error
