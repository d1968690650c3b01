"""The optimizer of a run."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from mlml.methods.base import Method


def adam(parameters: Iterable[nn.Parameter], method: Method, lr: float) -> torch.optim.Adam:
    """Adam with a constant rate and no weight decay, as in the paper; a method's own parameters at lr * lr_scale."""
    groups: list[dict[str, Any]] = [{"params": list(parameters)}]
    if own := list(method.parameters()):
        groups.append({"params": own, "lr": lr * method.lr_scale})
    return torch.optim.Adam(groups, lr=lr, fused=groups[0]["params"][0].device.type == "cuda")
