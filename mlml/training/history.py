"""The history of a run: one line per epoch, in a file that grows while training."""

from pathlib import Path
from typing import NamedTuple

import pandas as pd

from mlml.core.files import atomic_write

DECIMALS = 6


class Epoch(NamedTuple):
    """Mean training loss per image and validation mAP in percent of an epoch."""

    epoch: int
    loss: float
    validation_mAP: float


class Best(NamedTuple):
    """The epoch with the highest validation mAP, the first of equal ones."""

    epoch: int
    validation_mAP: float


class History:
    """Writes the tab-separated file at `path` anew after each epoch that it is called with."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.epochs: list[Epoch] = []

    def __call__(self, epoch: Epoch) -> None:
        self.epochs.append(epoch)
        with atomic_write(self.path) as part:
            pd.DataFrame(self.epochs).round(DECIMALS).to_csv(part, sep="\t", index=False, lineterminator="\n")
