"""Entropy maximisation and asymmetric pseudo-labelling (Zhou 2022, "Acknowledging the Unknown for Multi-label
Learning with Single Positive Labels"). Values as in the source's code for Pascal VOC.
"""

import math
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from mlml.labels import UNKNOWN, slices
from mlml.methods.base import Batch, Method, NonNegative, Share, TrainLabels
from mlml.methods.shared.losses import bce, cross_entropy


class EntropyPseudoLabels(Method):
    """Unknown labels are kept undecided; those with the lowest scores become soft negatives little by little.

    After each epoch from `warmup` on, in each class, the floor(share * unknown / (T - warmup)) unknown labels with the
    lowest scores that are not soft negatives yet become so, with their score s as target for good. `unknown` counts
    the class's unknown labels before training, T is the number of epochs; with T <= warmup no loss ever has one.

    The scores are the predictions that the epoch's training steps gave; the source makes them in another pass in
    evaluation mode. Observed negatives, which the source does not have, are learnt as the positives are.

    The source's values: VOC alpha 0.2, beta 0.02, warmup 5; COCO 0.1, 0.9, 5; NUS-WIDE 0.1, 0.2, 4; CUB 0.01, 0.4, 3;
    all of 10 epochs.

    Args:
        alpha: weight of the entropy.
        beta: weight of the soft negatives.
        warmup: the first epoch after which there are soft negatives.
        share: of a class's unknown labels that are soft negatives at the end.
    """

    wants_predictions = True

    def __init__(
        self,
        train: TrainLabels,
        *,
        alpha: NonNegative = 0.2,
        beta: NonNegative = 0.02,
        warmup: Annotated[int, Field(ge=1)] = 5,
        share: Share = 0.9,
    ) -> None:
        super().__init__()
        self.alpha, self.beta, self.warmup = alpha, beta, warmup
        if warmup >= train.epochs:
            self.notes = (f"no soft negatives: they would be chosen after epoch {warmup} of {train.epochs}",)
        self.unknown: Tensor
        self.soft: Tensor
        self.score: Tensor
        self.quota: Tensor
        unknown = train.observed == UNKNOWN
        rounds = max(train.epochs - warmup, 1)
        self.register_buffer("unknown", unknown, persistent=False)
        self.register_buffer("soft", torch.zeros_like(unknown))  # bool [n, L], the soft negatives
        self.register_buffer("score", torch.zeros(unknown.shape))  # float32 [n, L], their targets
        # int64 [L], how many a class an epoch; 0.57 * 100 is 57, not 56.
        self.register_buffer("quota", (share * unknown.sum(0).double() / rounds + 1e-9).long(), persistent=False)

    def forward(self, logits: Tensor, batch: Batch, epoch: int) -> Tensor:
        """Mean over all b L labels of the binary cross entropy where observed, -alpha H(p) where unknown, and
        beta * the cross entropy with s of a soft negative. p = sigmoid(logit), H(p) = -p log p - (1 - p) log(1 - p).
        """
        entropy = cross_entropy(logits, logits.sigmoid())
        negative = cross_entropy(logits, self.score[batch.index].to(logits.dtype))
        unknown = torch.where(self.soft[batch.index], self.beta * negative, -self.alpha * entropy)
        return torch.where(batch.observed == UNKNOWN, unknown, bce(logits, batch.observed)).mean()

    def end_epoch(self, epoch: int, predictions: Tensor | None) -> None:
        """Choose the next soft negatives of each class."""
        if predictions is None or epoch < self.warmup:
            return
        for columns in slices(*predictions.T.shape):
            self._choose(columns, predictions[:, columns])

    def _choose(self, columns: slice, predictions: Tensor) -> None:
        """The same for some of the classes."""
        soft, score = self.soft[:, columns], self.score[:, columns]
        free = (self.unknown[:, columns] & ~soft).T.contiguous()  # a class a row, which sorts faster
        order = predictions.T.masked_fill(~free, math.inf).argsort(stable=True, dim=1)
        first = torch.arange(order.shape[1], device=order.device) < self.quota[columns, None]
        chosen = (torch.zeros_like(free).scatter_(1, order, first) & free).T
        score.copy_(torch.where(chosen, predictions, score))
        soft |= chosen


method = EntropyPseudoLabels
