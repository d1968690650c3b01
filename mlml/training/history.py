"""The history of a run: one line an epoch, in a file that grows while training."""

from pathlib import Path
from typing import NamedTuple

import pandas as pd

from mlml.core.files import atomic_write

DECIMALS = 6


class Epoch(NamedTuple):
    """One line: mean training loss an image, and the validation mAP in percent."""

    epoch: int
    loss: float
    validation_mAP: float


class Best(NamedTuple):
    """The epoch with the highest validation mAP; of equal ones, the first."""

    epoch: int
    validation_mAP: float


class History:
    """Call it after each epoch; the tab-separated file at `path` is then complete up to this epoch."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.epochs: list[Epoch] = []

    def __call__(self, epoch: Epoch) -> None:
        self.epochs.append(epoch)
        with atomic_write(self.path) as part:
            pd.DataFrame(self.epochs).round(DECIMALS).to_csv(part, sep="\t", index=False, lineterminator="\n")
