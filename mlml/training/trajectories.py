"""Predictions and pseudo labels of a few training images from epoch to epoch, for the paper's Fig. 2."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mlml.core.files import atomic_write
from mlml.methods.base import Method

IMAGES = 100  # whose labels are all recorded; a figure shows a few


class Recorder:
    """Records at most `IMAGES` training images, drawn by `seed`.

    Args:
        n: number of training images.
        classes: number of classes.
        device: where the predictions come from.
    """

    def __init__(self, n: int, classes: int, seed: int, method: Method, device: torch.device) -> None:
        self.rows = np.sort(np.random.RandomState(seed).permutation(n)[:IMAGES])
        self._index = torch.from_numpy(self.rows).to(device)
        # All other images share one more slot: a step then needs no selection, for which it would wait.
        self._slot = torch.full((n,), len(self.rows), device=device)
        self._slot[self._index] = torch.arange(len(self.rows), device=device)
        self._plane = torch.zeros(len(self.rows) + 1, classes, device=device)
        self._predictions: list[np.ndarray] = []
        self._pseudo = [self._pseudo_labels(method)]

    def record(self, index: Tensor, predictions: Tensor) -> None:
        """Record a step's predictions, float32 [b, L], for the training rows `index`."""
        self._plane[self._slot[index]] = predictions

    def end_epoch(self, method: Method) -> None:
        """Keep the epoch's predictions and the method's pseudo labels after it."""
        self._predictions.append(self._plane[:-1].cpu().numpy().copy())
        self._pseudo.append(self._pseudo_labels(method))

    @torch.no_grad()
    def _pseudo_labels(self, method: Method) -> np.ndarray | None:
        pseudo = method.pseudo_labels(self._index)
        return None if pseudo is None else pseudo.cpu().numpy().copy()

    def state_dict(self) -> dict[str, Any]:
        """The epochs recorded so far."""
        pseudo = [None if array is None else torch.from_numpy(array) for array in self._pseudo]
        return {"predictions": [torch.from_numpy(array) for array in self._predictions], "pseudo": pseudo}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._predictions = [array.numpy() for array in state["predictions"]]
        self._pseudo = [None if array is None else array.numpy() for array in state["pseudo"]]

    def save(self, path: Path) -> None:
        """Write an .npz: rows int64 [t] in the training table, predictions float32 [E, t, L], pseudo_labels.

        pseudo_labels: float32 [E + 1, t, L], the first before training; [0, t, L] for a method without.
        """
        pseudo = [array for array in self._pseudo if array is not None]
        predictions = np.stack(self._predictions)
        with atomic_write(path) as part:
            np.savez_compressed(
                part,
                rows=self.rows,
                predictions=predictions,
                pseudo_labels=np.stack(pseudo) if pseudo else predictions[:0],
            )
