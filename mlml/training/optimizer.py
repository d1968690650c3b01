"""The optimizer of a run."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from mlml.methods.base import Method
from mlml.methods.shared.row_parameter import RowParameter
from mlml.training.row_adam import RowAdam


class Optimizer:
    """Adam with a constant rate and no weight decay, as in the paper; a method's own parameters at lr * lr_scale."""

    def __init__(self, parameters: Iterable[nn.Parameter], method: Method, lr: float) -> None:
        groups: list[dict[str, Any]] = [{"params": list(parameters)}]
        if own := list(method.parameters()):
            groups.append({"params": own, "lr": lr * method.lr_scale})
        self.adam = torch.optim.Adam(groups, lr=lr, fused=groups[0]["params"][0].device.type == "cuda")
        self.rows = [RowAdam(each, lr * method.lr_scale) for each in method.modules() if isinstance(each, RowParameter)]

    def zero_grad(self) -> None:
        """Forget the gradients; those of rows belong to what was read for one step."""
        self.adam.zero_grad(set_to_none=True)

    def step(self) -> None:
        """Move all parameters by their gradients."""
        self.adam.step()
        for each in self.rows:
            each.step()

    def settle(self) -> None:
        """Make the moves of rows that are left to do, so that all numbers are what they are now."""
        for each in self.rows:
            each.rows.settle()

    def close(self) -> None:
        """Make the moves that are left to do, and none any more."""
        for each in self.rows:
            each.rows.trained_by(lambda index: None)

    def state_dict(self) -> dict[str, Any]:
        """Of all its parts."""
        return {"adam": self.adam.state_dict(), "rows": [each.state_dict() for each in self.rows]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take what `state_dict` gave."""
        self.adam.load_state_dict(state["adam"])
        for each, given in zip(self.rows, state["rows"], strict=True):
            each.load_state_dict(given)
