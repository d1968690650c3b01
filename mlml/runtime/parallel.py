"""Training by several processes as by one: each computes its share of every batch.

What a method sees is the whole batch, in every process: the logits of all shares are put together, so that every
process has the same loss, the same predictions and the same pseudo labels, and a loss that is no mean over images is
right too. Without `group`, or with one process, nothing here does anything.
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
    """Join the processes that torchrun started, if it did; the main one alone reports."""
    if not dist.is_available() or not dist.is_torchelastic_launched():
        yield
        return
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    Thread(target=_end_without, args=[os.getppid()], daemon=True).start()
    if not is_main():
        logging.getLogger("mlml").setLevel(logging.ERROR)
    yield
    dist.destroy_process_group()  # not after an error: it may wait for processes that have another


def _end_without(parent: int) -> None:
    """End this process when torchrun is no more: nobody else would, and the next run would meet it."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def world_size() -> int:
    """How many there are."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """This process's number, from 0."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def is_main() -> bool:
    """Whether this is the process that prints and writes."""
    return rank() == 0


def share(batch: Tensor) -> Tensor:
    """This process's part of a batch [b, ...]: every W-th of it, of W processes."""
    return batch[rank() :: world_size()]


def gather_batch(part: Tensor, size: int) -> Tensor:
    """The batch [size, ...] whose `share` is `part` in each process, in all of them.

    Its gradient reaches the parts W times as large: the processes' gradients are averaged, where they should be added.
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
    """The sum over the processes, in place."""
    if world_size() > 1:
        dist.all_reduce(values)
    return values


def broadcast(make: Callable[[], _T]) -> _T:
    """What `make` returns in the first process, in all of them; it is called there alone."""
    if world_size() == 1:
        return make()
    box: list[Any] = [make() if is_main() else None]
    dist.broadcast_object_list(box, device=torch.device("cpu"))
    return cast(_T, box[0])


def replicated(model: nn.Module) -> nn.Module:
    """The model with the first process's weights, whose gradients are averaged over the processes."""
    if world_size() == 1:
        return model
    # Running statistics are made one after the epoch; older versions of torch have another name for that.
    new, old = "forward_sync_buffers", "broadcast_buffers"
    options: dict[str, Any] = {new if new in signature(DistributedDataParallel).parameters else old: False}
    # static_graph: some backbones have parameters that no gradient reaches.
    return DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True, **options)


@torch.no_grad()
def average_buffers(model: nn.Module) -> None:
    """Make the running statistics of the processes one: their mean."""
    if world_size() > 1:
        for name, buffer in model.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                all_reduce(buffer).div_(world_size())


def same_random(device: torch.device) -> None:
    """Have all processes draw the random numbers of the first: what a method draws must be the same in all.

    They differ before if the backbone draws, for dropout, and the shares differ in size.
    """
    if world_size() > 1:
        cuda = device.type == "cuda"
        states = broadcast(lambda: (torch.get_rng_state(), torch.cuda.get_rng_state(device) if cuda else None))
        torch.set_rng_state(states[0])
        if states[1] is not None:
            torch.cuda.set_rng_state(states[1], device)
