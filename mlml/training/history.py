"""The history of a run: one line per epoch, in a file that grows while training."""

from math import isnan
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from mlml.core.files import atomic_write

DECIMALS = 6


class Epoch(NamedTuple):
    """The results of an epoch; of the validation scores, those that were computed (`mlml.training.criterion`).

    Attributes:
        loss: mean training loss per image.
        validation_mAP: in percent; NaN if no class has one.
        validation_mAP_an: in percent.
        validation_loss: mean per known label.
    """

    epoch: int
    loss: float
    validation_mAP: float
    validation_mAP_an: float | None = None
    validation_loss: float | None = None

    def scores(self) -> dict[str, float]:
        """The validation scores that are defined, by name."""
        values = {name: getattr(self, name) for name in SCORES}
        return {name: value for name, value in values.items() if value is not None and not isnan(value)}

    def line(self) -> str:
        """The validation scores as text."""
        scores = self.scores().items()
        return "  ".join(
            f"{name.replace('_', ' ', 1)} {value:.{4 if 'loss' in name else 2}f}" for name, value in scores
        )


SCORES = [name for name in Epoch._fields if name.startswith("validation_")]


class History:
    """Writes the tab-separated file at `path` anew after each epoch that it is called with."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.epochs: list[Epoch] = []

    def __call__(self, epoch: Epoch) -> None:
        self.epochs.append(epoch)
        columns = [name for name in Epoch._fields if getattr(epoch, name) is not None]
        with atomic_write(self.path) as part:
            table = pd.DataFrame(self.epochs)[columns].round(DECIMALS)
            table.to_csv(part, sep="\t", index=False, lineterminator="\n")
