"""Numbers that are trained for each image, of which a step sees only a batch."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


class RowParameter(nn.Module):
    """One trained number for each image and label: float [n, L].

    Called with the rows of a batch it gives them, so that a gradient is as large as the batch, not as all images. The
    optimizer (`mlml.training.row_adam`) takes it from `taken`.

    Attributes:
        weight: float [n, L]. Rows that were not asked for of late may still have moves to make.
        taken: the rows that were last asked for with gradients, int64 [b], and their numbers, [b, L].
    """

    weight: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.taken: tuple[Tensor, Tensor] | None = None
        self._settle: Callable[[Tensor], None] = lambda index: None

    def trained_by(self, settle: Callable[[Tensor], None]) -> None:
        """From now on `settle` is called with rows that are about to be read, int64 [b], to bring them up to date.

        What trained them until now does so for the last time, with all.
        """
        self.settle()
        self._settle = settle

    def settle(self) -> None:
        """Bring all rows up to date."""
        self._settle(torch.arange(len(self.weight), device=self.weight.device))

    def forward(self, index: Tensor) -> Tensor:
        """These rows, int64 [b], each at most once where gradients are on: float [b, L]."""
        self._settle(index)
        rows = self.weight[index]
        if torch.is_grad_enabled():
            self.taken = index, rows.requires_grad_()
        return rows
