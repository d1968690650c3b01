"""Everything that training changes, so that a run can be saved after an epoch and resumed."""

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from mlml.checkpoints.checkpoint import FOLDER
from mlml.methods.base import Method
from mlml.model.classifier import Model
from mlml.runtime import parallel
from mlml.training.criterion import Criterion, better
from mlml.training.history import Epoch
from mlml.training.trajectories import Recorder


def make_optimizer(parameters: Iterable[nn.Parameter], method: Method, lr: float) -> torch.optim.Adam:
    """Adam with a constant learning rate and no weight decay (paper, Sec. V-D).

    The method's own parameters train at lr * `Method.lr_scale`.
    """
    groups: list[dict[str, Any]] = [{"params": list(parameters)}]
    if numbers := list(method.parameters()):
        # Often one for every training image and label: fused, Adam passes over them once.
        groups.append({"params": numbers, "lr": lr * method.lr_scale, "fused": True})
    return torch.optim.Adam(groups, lr=lr, fused=groups[0]["params"][0].device.type == "cuda")


@dataclass
class TrainState:
    """The state of a run. A resumed run ends with the same bits as one without interruption.

    Attributes:
        order: draws the order of the images and which of them are flipped.
        recorder: what is kept for the figures, if anything.
        criterion: what the best epoch is chosen by.
        best: the best epoch so far, the first of equal ones; None: there is none yet.
        weights: the model's state after the best epoch.
        history: one entry per finished epoch.
    """

    model: Model
    method: Method
    optimizer: torch.optim.Adam
    order: torch.Generator
    recorder: Recorder | None = None
    criterion: Criterion = "mAP"
    best: Epoch | None = None
    weights: dict[str, Tensor] = field(default_factory=dict)
    history: list[Epoch] = field(default_factory=list)

    @cached_property
    def replica(self) -> nn.Module:
        """The model as a training step calls it: several processes average its gradients."""
        return parallel.replicated(self.model)

    def finish(self, epoch: Epoch) -> None:
        """Add an epoch to the history; keep the weights if it is the best one so far."""
        self.history.append(epoch)
        if self.best is None or better(self.criterion, self.value(epoch), self.value(self.best)):
            self.best = epoch
            self.weights = copy.deepcopy(self.model.state_dict())

    def value(self, epoch: Epoch) -> float:
        """What the epoch is compared with others by."""
        value: float = getattr(epoch, f"validation_{self.criterion}")
        return value

    def state_dict(self) -> dict[str, Any]:
        """The state and torch's random states: tensors, numbers and strings in dictionaries and lists."""
        device = self.model.device
        return {
            "epoch": len(self.history),
            "model": self.model.state_dict(),
            "method": self.method.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "recorder": self.recorder.state_dict() if self.recorder else None,
            "best": self.best.epoch if self.best else 0,
            # After the best epoch itself they are the model's.
            "weights": self.weights if self.best is None or self.best.epoch < len(self.history) else None,
            "history": [list(epoch) for epoch in self.history],
            "order": self.order.get_state(),
            "random": torch.get_rng_state(),
            "device_random": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned.

        Raises:
            ValueError: it returned another form.
        """
        try:
            self._restore(state)
        except torch.OutOfMemoryError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise ValueError(
                f"the checkpoint in {FOLDER} is not of this run ({type(error).__name__}): remove it"
            ) from error

    def _restore(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.method.load_state_dict(state["method"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.recorder:
            self.recorder.load_state_dict(state["recorder"])
        self.weights = copy.deepcopy(self.model.state_dict()) if state["weights"] is None else state["weights"]
        self.history = [Epoch(*entry) for entry in state["history"]]
        self.best = self.history[state["best"] - 1] if self.history else None
        self.order.set_state(state["order"])
        torch.set_rng_state(state["random"])
        if state["device_random"] is not None:
            torch.cuda.set_rng_state(state["device_random"], self.model.device)
