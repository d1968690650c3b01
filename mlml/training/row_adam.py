"""Adam for `mlml.methods.shared.row_parameter.RowParameter`."""

from math import ceil, log
from typing import Any

import torch
from torch import Tensor

from mlml.methods.shared.row_parameter import RowParameter

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # torch's defaults
# A row's momentum moves it in all later steps, 0.9 times as far in each: what is left out after so many is no more than
# rounding.
MOVES = ceil(log(1e-8) / log(BETA1))
ROWS, MOST = 1024, 1 << 20  # that are read, and so many numbers computed, at once: a bound of the memory


class RowAdam:
    """What `torch.optim.Adam` does to all n rows in every step, in a time that does not depend on n.

    A row that is not in a batch has a gradient of zero, and Adam moves it on by its momentum. Here these moves are made
    up for when the row is read again. Of several for the same rows the last that was made trains them.

    Args:
        lr: the learning rate, constant.
    """

    def __init__(self, rows: RowParameter, lr: float) -> None:
        self.rows, self.lr, self.steps = rows, lr, 0
        n, device = len(rows.weight), rows.weight.device
        self.mean, self.square = torch.zeros_like(rows.weight), torch.zeros_like(rows.weight)  # of the gradient
        self.settled = torch.zeros(n, 1, dtype=torch.int64, device=device)  # each row's last step that is made
        rows.trained_by(self.settle)

    @torch.no_grad()
    def step(self) -> None:
        """A step with the gradient of the rows that were taken, if they have one."""
        if self.rows.taken is None or self.rows.taken[1].grad is None:
            return
        index, gradient = self.rows.taken[0], self.rows.taken[1].grad
        self.rows.taken = None
        self.steps += 1
        self.settled[index] = self.steps
        self.mean[index] = mean = self.mean[index].lerp(gradient, 1 - BETA1)
        self.square[index] = square = self.square[index].lerp(gradient.square(), 1 - BETA2)
        root = square.sqrt() / (1 - BETA2**self.steps) ** 0.5 + EPSILON
        self.rows.weight[index] -= self.lr / (1 - BETA1**self.steps) * mean / root

    @torch.no_grad()
    def settle(self, index: Tensor) -> None:
        """Make the moves that these rows, int64 [b], have not made since they were last settled."""
        for part in index.split(ROWS):
            mean, square, settled = self.mean[part], self.square[part], self.settled[part]
            root, move = square.sqrt(), torch.zeros_like(mean)
            at_once = max(1, MOST // max(1, mean.numel()))
            for later in torch.arange(1, min(self.steps, MOVES) + 1, device=part.device).split(at_once):
                of_mean, of_root = self._factors(settled, later[:, None, None])
                move += (of_mean.to(mean) * mean / (of_root.to(mean) * root + EPSILON)).sum(0)
            missed = (self.steps - settled).double()
            self.rows.weight[part] -= move
            self.mean[part], self.square[part] = mean * (BETA1**missed).to(mean), square * (BETA2**missed).to(mean)
            self.settled[part] = self.steps

    def _factors(self, settled: Tensor, later: Tensor) -> tuple[Tensor, Tensor]:
        """How far each row moves, `later` steps after it was settled, as multiples of its moments then.

        Returns:
            The learning rate times the decay and the bias correction of the mean, 0 for steps that are still to come;
            those of the root of the square. float64.
        """
        later, number = later.double(), (settled + later).double()
        of_mean = self.lr * BETA1**later / (1 - BETA1**number) * (number <= self.steps)
        return of_mean, (BETA2**later / (1 - BETA2**number)).sqrt()

    def state_dict(self) -> dict[str, Any]:
        """What the next step depends on besides the rows."""
        return {"steps": self.steps, "mean": self.mean, "square": self.square, "settled": self.settled}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take what `state_dict` gave."""
        self.steps = state["steps"]
        for name in ("mean", "square", "settled"):
            getattr(self, name).copy_(state[name])
