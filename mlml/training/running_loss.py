"""The losses of an epoch's steps, which stay on the device: looking at them does not hold up a step."""

import torch
from torch import Tensor


class RunningLoss:
    """The loss of each step.

    Args:
        steps: how many there will be.
    """

    def __init__(self, steps: int, device: torch.device) -> None:
        self._losses = torch.zeros(steps, device=device)
        self._count = 0
        self._asked: tuple[Tensor, torch.cuda.Event] | None = None

    def add(self, loss: Tensor) -> None:
        """Take the loss of the next step, a scalar."""
        self._losses[self._count] = loss.detach()
        self._count += 1

    def look(self) -> Tensor:
        """The losses so far, float32 [s] on the CPU; of a GPU those up to the last look."""
        if self._losses.device.type != "cuda":
            return self.all()
        asked, copy = self._asked, self._losses[: self._count].to("cpu", non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        self._asked = copy, event
        if asked is None:
            return torch.zeros(0)
        asked[1].synchronize()
        return asked[0]

    def all(self) -> Tensor:
        """The losses so far, float32 [s] on the CPU; waits for them."""
        return self._losses[: self._count].cpu()
