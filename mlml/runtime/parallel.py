"""Data parallelism: several processes, each with a share of every batch, train as one process would.

A method sees the whole batch in every process: the logits of all shares are gathered, so that every process computes
the same loss, predictions and pseudo labels, also for losses that are no mean over images. With one process, or outside
of `group`, these functions do nothing.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import signature
from threading import Thread
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

_T = TypeVar("_T")


@contextmanager
def group() -> Iterator[None]:
    """Join the processes that torchrun started, if it did; only the main process reports."""
    if not dist.is_available() or not dist.is_torchelastic_launched():
        yield
        return
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    Thread(target=_exit_without, args=[os.getppid()], daemon=True).start()
    if not is_main():
        logging.getLogger("mlml").setLevel(logging.ERROR)
    yield
    dist.destroy_process_group()  # not after an error, when it might wait for the other processes


def _exit_without(parent: int) -> None:
    """Exit when torchrun has died: otherwise this process would go on and meet the next run."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def world_size() -> int:
    """Number of processes."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Number of this process, from 0."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def is_main() -> bool:
    """Whether this is the process that reports and writes files."""
    return rank() == 0


def share(batch: Tensor) -> Tensor:
    """This process's share of a batch [b, ...]: with W processes, every W-th image."""
    return batch[rank() :: world_size()]


def gather_batch(part: Tensor, size: int) -> Tensor:
    """Put the processes' shares together again: the batch [size, ...] in every process.

    The gradient of a share is W times that of the batch, since `replicated` averages gradients that should be added.
    """
    if world_size() == 1:
        return part
    result: Tensor = _GatherBatch.apply(part, size)
    return result


class _GatherBatch(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor, size: int) -> Tensor:
        batch = part.new_zeros(size, *part.shape[1:])
        share(batch).copy_(part)
        return all_reduce(batch)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return share(gradients[0]) * world_size(), None


def all_reduce(values: Tensor) -> Tensor:
    """Sum over the processes, in place."""
    if world_size() > 1:
        dist.all_reduce(values)
    return values


def broadcast(make: Callable[[], _T]) -> _T:
    """What `make` returns in the main process, for all processes; the others do not call it."""
    if world_size() == 1:
        return make()
    box: list[Any] = [make() if is_main() else None]
    dist.broadcast_object_list(box, device=torch.device("cpu"))
    return cast(_T, box[0])


def replicated(model: nn.Module) -> nn.Module:
    """The model with the main process's weights in every process; its gradients are averaged over the processes."""
    if world_size() == 1:
        return model
    # Running statistics are averaged after the epoch instead. Older versions of torch call the option differently.
    new, old = "forward_sync_buffers", "broadcast_buffers"
    options: dict[str, Any] = {new if new in signature(DistributedDataParallel).parameters else old: False}
    # static_graph: some backbones have parameters that no gradient reaches.
    return DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True, **options)


@torch.no_grad()
def average_buffers(model: nn.Module) -> None:
    """Replace the running statistics of batch normalisation by their mean over the processes."""
    if world_size() > 1:
        for name, buffer in model.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                all_reduce(buffer).div_(world_size())


def same_random(device: torch.device) -> None:
    """Give all processes the random state of the main one: what a method draws must be the same in all.

    The states differ when the backbone draws, for dropout, and the shares differ in size.
    """
    if world_size() > 1:
        cuda = device.type == "cuda"
        states = broadcast(lambda: (torch.get_rng_state(), torch.cuda.get_rng_state(device) if cuda else None))
        torch.set_rng_state(states[0])
        if states[1] is not None:
            torch.cuda.set_rng_state(states[1], device)
