"""Everything that training changes, so that it can be put aside after an epoch and taken up again."""

import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from mlml.methods.base import Method
from mlml.model.classifier import Model
from mlml.runtime import parallel
from mlml.training.history import Best, Epoch
from mlml.training.optimizer import Optimizer
from mlml.training.trajectories import Recorder


@dataclass
class TrainState:
    """What a run has come to. A run that goes on with it ends as if it had not been interrupted, to the bit.

    Attributes:
        order: draws the order of the images and which are mirrored.
        best: the best epoch so far, and `weights`, the model's state after it.
        history: a line for each finished epoch.
    """

    model: Model
    method: Method
    optimizer: Optimizer
    order: torch.Generator
    recorder: Recorder | None
    best: Best = Best(0, -1.0)  # noqa: RUF009  # it cannot be changed
    weights: dict[str, Tensor] = field(default_factory=dict)
    history: list[Epoch] = field(default_factory=list)

    @cached_property
    def replica(self) -> nn.Module:
        """The model as a training step calls it: with its gradients shared with the other processes, if there are."""
        return parallel.replicated(self.model)

    def finish(self, epoch: Epoch) -> None:
        """Take note of an epoch that is done, and of the weights if it is the best one."""
        self.history.append(epoch)
        if epoch.validation_mAP > self.best.validation_mAP:
            self.best = Best(epoch.epoch, epoch.validation_mAP)
            self.weights = copy.deepcopy(self.model.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """All of it, and the states of torch's random numbers: tensors, numbers and texts in dictionaries and lists."""
        device = self.model.device
        return {
            "epoch": len(self.history),
            "model": self.model.state_dict(),
            "method": self.method.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "recorder": self.recorder.state_dict() if self.recorder else None,
            "best": list(self.best),
            # Those of the epoch that just ended are the model's.
            "weights": None if self.best.epoch == len(self.history) else self.weights,
            "history": [list(epoch) for epoch in self.history],
            "order": self.order.get_state(),
            "random": torch.get_rng_state(),
            "device_random": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take what `state_dict` gave."""
        self.model.load_state_dict(state["model"])
        self.method.load_state_dict(state["method"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.recorder:
            self.recorder.load_state_dict(state["recorder"])
        self.best = Best(*state["best"])
        self.weights = copy.deepcopy(self.model.state_dict()) if state["weights"] is None else state["weights"]
        self.history = [Epoch(*line) for line in state["history"]]
        self.order.set_state(state["order"])
        torch.set_rng_state(state["random"])
        if state["device_random"] is not None:
            torch.cuda.set_rng_state(state["device_random"], self.model.device)
