"""Trainings that torchrun starts in two processes, test_parallel.py in one: python -m tests.runtime.ranks FOLDER."""

import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from mlml import methods
from mlml.checkpoints.checkpoint import Checkpoint
from mlml.methods import TrainLabels
from mlml.methods.shared.row_parameter import RowParameter
from mlml.model.classifier import Classifier, LinearProbe, Model
from mlml.model.predict import as_features, predict
from mlml.runtime import parallel
from mlml.runtime.device import seed_everything
from mlml.training import loop, sync_batch_norm
from mlml.training.history import Epoch
from mlml.training.trajectories import Recorder
from tests.training.test_loop import L, N, data, recipe

CPU = torch.device("cpu")
# A mean over labels, one over images, a choice among the labels of the batch, a correction for good, parameters of its
# own after a start with the linear layer alone, and pseudo labels with random numbers in each epoch.
METHODS = {"an": {}, "ll_ct": {"delta": 0.1}, "ll_cp": {"delta": 0.1}, "role": {}, "em_apl": {"warmup": 1}}
METHODS["pseudo_label"] = {"start_epoch": 0, "d": 0.5}


class RowSgd:
    """In place of `RowAdam`."""

    def __init__(self, rows: RowParameter, lr: float) -> None:
        self.rows, self.lr = rows, lr

    def step(self) -> None:
        index, rows = self.rows.taken
        self.rows.weight[index] -= self.lr * rows.grad

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {}


def sgd(groups: list[dict[str, Any]], lr: float, fused: bool) -> torch.optim.Optimizer:
    """In place of Adam, which hides a wrong scale of the gradients, and makes much of rounding where they are 0."""
    return torch.optim.SGD(groups, lr=lr)


class Stop(Exception):
    pass


def train(
    name: str,
    synchronised: bool = True,
    batch_size: int = 8,
    kept: Checkpoint | None = None,
    stop: int = 0,
    probe: bool = False,
    adam: bool = False,
) -> dict[str, torch.Tensor]:
    """What a short training by a method leaves: all weights, the method's state, history, logits, trajectories.

    It ends with `Stop` at the end of epoch `stop`, before that is kept. The optimizer is `sgd`, unless `adam`.
    """
    seed_everything(3)
    lr = 1e-4 if adam else 0.02
    plan = recipe(epochs=2, flip=True, lr=lr, linear_init=2 if name == "role" else 0, batch_size=batch_size)
    given, validation = data()
    observed = np.where(np.random.RandomState(1).rand(N, L) < 0.4, 0, given.labels).astype(np.int8)
    model: Model = Classifier(plan.backbone, L)
    method = methods.build(name, TrainLabels(torch.from_numpy(observed), 1.2, plan.epochs), METHODS[name])
    if probe:
        given, validation = as_features(model, given), as_features(model, validation)
        model, plan = LinearProbe(model), plan.model_copy(update={"flip": False})
    elif synchronised:
        sync_batch_norm.synchronise(model, CPU)
    recorder, history = Recorder(N, L, 0, method, CPU), []

    def on_epoch(epoch: Epoch) -> None:
        history.append(epoch)
        if len(history) == stop:
            raise Stop

    given = given._replace(labels=observed)
    with ExitStack() as patches:
        if not adam:
            patches.enter_context(patch("torch.optim.Adam", sgd))
            patches.enter_context(patch("mlml.training.optimizer.RowAdam", RowSgd))
        loop.fit(model, method, given, validation, plan, 3, recorder, on_epoch, kept)
    return {
        **{f"model.{key}": value for key, value in model.state_dict().items()},
        **{f"method.{key}": value for key, value in method.state_dict().items()},
        **{f"predictions.{epoch}": value for epoch, value in enumerate(recorder.state_dict()["predictions"])},
        "losses": torch.tensor([epoch.loss for epoch in history]),
        "logits": torch.from_numpy(predict(model, validation)),
    }


def resumed(folder: Path, name: str, adam: bool) -> dict[str, torch.Tensor]:
    """As `train`, interrupted in its second epoch."""
    kept = Checkpoint(folder, name)
    with suppress(Stop):
        train(name, kept=kept, stop=2, adam=adam)
    kept.wait()
    return train(name, kept=Checkpoint(folder, name), adam=adam)


def main(folder: Path) -> None:
    """A training a method, one whose processes normalise each their own share, two that were interrupted, one probe."""
    with parallel.group():
        found = {name: train(name) for name in METHODS}
        found |= {"apart": train("an", synchronised=False), "probe": train("pseudo_label", probe=True)}
        found |= {"adam": train("role", adam=True), "resumed adam": resumed(folder, "role", adam=True)}
        found |= {"resumed pseudo_label": resumed(folder, "pseudo_label", adam=False)}
        torch.save(found, folder / str(parallel.rank()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
