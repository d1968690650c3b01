"""Trainings that torchrun starts in two processes, and tests/test_parallel.py in one: python -m tests.ranks FILE."""

import sys
from collections.abc import Iterable
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from torch import nn

from mlml import batch_norm, methods, parallel, training
from mlml.determinism import seed_everything
from mlml.inference import predict
from mlml.methods import Method, TrainLabels
from mlml.model import Classifier
from mlml.trajectories import Recorder
from tests.test_training import L, N, data, recipe

CPU = torch.device("cpu")
# A mean over labels, one over images, a choice among the labels of the batch, a correction for good, parameters of its
# own after a start with the linear layer alone, and pseudo labels with random numbers in each epoch.
METHODS = {"an": {}, "ll_ct": {"delta": 0.1}, "ll_cp": {"delta": 0.1}, "role": {}, "em_apl": {"warmup": 1}}
METHODS["pseudo_label"] = {"start_epoch": 0, "d": 0.5}


def sgd(parameters: Iterable[nn.Parameter], method: Method, lr: float) -> torch.optim.Optimizer:
    """In place of Adam, which hides a wrong scale of the gradients, and makes much of rounding where they are 0."""
    own = {"params": list(method.parameters()), "lr": lr * method.lr_scale}
    return torch.optim.SGD([{"params": list(parameters)}, *([own] if own["params"] else [])], lr=lr)


def train(name: str, synchronised: bool = True, batch_size: int = 8) -> dict[str, torch.Tensor]:
    """What a short training by a method leaves: all weights, the method's state, history, logits, trajectories."""
    seed_everything(3)
    plan = recipe(epochs=2, flip=True, lr=0.02, linear_init=2 if name == "role" else 0, batch_size=batch_size)
    given, validation = data()
    observed = np.where(np.random.RandomState(1).rand(N, L) < 0.4, 0, given.labels).astype(np.int8)
    model = Classifier(plan.backbone, L)
    method = methods.build(name, TrainLabels(torch.from_numpy(observed), 1.2, plan.epochs), METHODS[name])
    if synchronised:
        batch_norm.synchronise(model, CPU)
    recorder, history = Recorder(N, L, 0, method, CPU), []
    with patch("mlml.training.adam", sgd), patch("mlml.linear_init.adam", sgd):
        training.fit(model, method, given._replace(labels=observed), validation, plan, 3, recorder, history.append)
    return {
        **{f"model.{key}": value for key, value in model.state_dict().items()},
        **{f"method.{key}": value for key, value in method.state_dict().items()},
        **{f"predictions.{epoch}": value for epoch, value in enumerate(recorder.state_dict()["predictions"])},
        "losses": torch.tensor([epoch.loss for epoch in history]),
        "logits": torch.from_numpy(predict(model, validation)),
    }


def everything() -> dict[str, dict[str, torch.Tensor]]:
    """A training a method, and one whose processes normalise each their own share."""
    return {name: train(name) for name in METHODS} | {"apart": train("an", synchronised=False)}


def main(file: Path) -> None:
    with parallel.group():
        torch.save(everything(), file.with_suffix(f".{parallel.rank()}"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
