"""Trainings that torchrun starts in two processes, test_parallel.py in one: python -m tests.runtime.ranks FOLDER.

All is computed in float64: what the order of additions changes then stays far below any mistake.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import torch

from mlml import methods
from mlml.checkpoints.checkpoint import Checkpoint
from mlml.core.progress import log_to_terminal
from mlml.methods import TrainLabels
from mlml.model.classifier import Classifier, LinearProbe, Model
from mlml.model.predict import as_features, predict
from mlml.runtime import parallel
from mlml.runtime.device import seed_everything
from mlml.training import loop
from mlml.training.history import Epoch
from mlml.training.trajectories import Recorder
from tests.training.test_loop import L, N, data, recipe

# Batch normalisation over each process's share is another training: this one has layer normalisation.
BACKBONE = "test_efficientnet_ln"
# A mean over labels, a choice among the labels of the batch, a correction for good, parameters of its own after a start
# with the linear layer alone, soft negatives, and pseudo labels with random numbers in each epoch.
METHODS = {"an": {}, "ll_ct": {"delta": 0.1}, "ll_cp": {"delta": 0.1}, "role": {}, "em_apl": {"warmup": 1}}
METHODS["pseudo_label"] = {"start_epoch": 0, "d": 0.5}


class Stop(Exception):
    pass


@contextmanager
def double_precision() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@double_precision()
def train(
    name: str,
    backbone: str = BACKBONE,
    batch_size: int = 8,
    checkpoint: Checkpoint | None = None,
    stop: int = 0,
    probe: bool = False,
) -> dict[str, torch.Tensor]:
    """What a short training by a method leaves: all weights, the method's state, history, logits, trajectories.

    It ends with `Stop` at the end of epoch `stop`, when the epoch is saved.
    """
    seed_everything(3)
    plan = recipe(backbone=backbone, epochs=2, flip=True, linear_init=2 if name == "role" else 0, batch_size=batch_size)
    training, validation = data()
    observed = np.where(np.random.RandomState(1).rand(N, L) < 0.4, 0, training.labels).astype(np.int8)
    model: Model = Classifier(plan.backbone, L)
    method = methods.build(name, TrainLabels(torch.from_numpy(observed), 1.2, plan.epochs), METHODS[name])
    if probe:
        training, validation = as_features(model, training), as_features(model, validation)
        model, plan = LinearProbe(model), plan.model_copy(update={"flip": False})
    recorder, history = Recorder(N, L, 0, method, torch.device("cpu")), []

    def on_epoch(epoch: Epoch) -> None:
        history.append(epoch)
        if len(history) == stop:
            raise Stop

    training = training._replace(labels=observed)
    loop.fit(model, method, training, validation, plan, 3, recorder, on_epoch, checkpoint)
    return {
        **{f"model.{key}": value for key, value in model.state_dict().items()},
        **{f"method.{key}": value for key, value in method.state_dict().items()},
        **{f"predictions.{epoch}": value for epoch, value in enumerate(recorder.state_dict()["predictions"])},
        "losses": torch.tensor([epoch.loss for epoch in history]),
        "logits": torch.from_numpy(predict(model, validation)),
    }


def resumed(folder: Path, name: str) -> dict[str, torch.Tensor]:
    """As `train`, interrupted after its first epoch."""
    checkpoint = Checkpoint(folder, name)
    with suppress(Stop):
        train(name, checkpoint=checkpoint, stop=1)
    checkpoint.wait()
    return train(name, checkpoint=Checkpoint(folder, name))


def main(folder: Path) -> None:
    """One training per method, one with batch normalisation, two that were interrupted, one linear probe."""
    log_to_terminal()
    with parallel.group():
        results = {name: train(name) for name in METHODS}
        results |= {"batch norm": train("an", "test_resnet"), "probe": train("pseudo_label", probe=True)}
        results |= {f"resumed {name}": resumed(folder, name) for name in ("role", "pseudo_label")}
        torch.save(results, folder / str(parallel.rank()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
