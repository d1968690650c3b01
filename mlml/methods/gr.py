"""Generalised robust loss (Chen 2024, "Boosting Single Positive Multi-label Classification with Generalized Robust
Loss"). Formulas and values as in the source's code for Pascal VOC.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from mlml.labels import UNKNOWN
from mlml.methods.base import Batch, Method, NonNegative, Positive, Share, TrainLabels
from mlml.methods.shared.losses import bce


def generalised_cross_entropy(logits: Tensor, q: float) -> Tensor:
    """(1 - p^q) / q of every label, p = sigmoid(logit): -log p at q -> 0, 1 - p at q = 1 (Zhang and Sabuncu 2018).

    Args:
        logits: float [b, L].
        q: not negative; Zhang and Sabuncu have 0..1.

    Returns:
        float [b, L].
    """
    log_p = F.logsigmoid(logits)
    return -torch.expm1(q * log_p) / q if q else -log_p


class GeneralisedRobust(Method):
    """Binary cross entropy where observed; an unknown label is present with a probability k that its score p gives.

    Unknown: v [k (1 - p^q2)/q2 + (1 - k) (1 - (1 - p)^q3)/q3], k = sigmoid(w p + b), v = exp(-((p - mu)/sigma)^2 / 2).
    p in k and v carries no gradient. In epoch e of T, w and b have gone (e - 1)/T of their way from `start` to `end`,
    mu and sigma e/T, as in the source's code. Mean over all b L labels. Observed negatives, which the source does not
    have, are learnt as the positives are.

    The source trains 8 epochs. For COCO, NUS-WIDE and CUB a successor (AEVLP) has w 0 to 10 and b -2 to -8, and for CUB
    also q3 1.5.
    """

    def __init__(
        self,
        train: TrainLabels,
        *,
        w_start: float = 0.0,
        w_end: float = 2.0,
        b_start: float = -2.0,
        b_end: float = -2.0,
        mu_start: float = 0.5,
        mu_end: float = 0.8,
        sigma_start: Positive = 2.0,
        sigma_end: Positive = 0.5,
        q2: Share = 0.01,
        q3: NonNegative = 1.0,
    ) -> None:
        super().__init__()
        self.w, self.b = (w_start, w_end), (b_start, b_end)
        self.mu, self.sigma = (mu_start, mu_end), (sigma_start, sigma_end)
        self.q2, self.q3, self.epochs = q2, q3, train.epochs

    def forward(self, logits: Tensor, batch: Batch, epoch: int) -> Tensor:
        def at(ends: tuple[float, float], passed: int) -> float:
            return ends[0] + (ends[1] - ends[0]) * passed / self.epochs

        p = logits.detach().sigmoid()
        k = (at(self.w, epoch - 1) * p + at(self.b, epoch - 1)).sigmoid()
        v = (-(((p - at(self.mu, epoch)) / at(self.sigma, epoch)) ** 2) / 2).exp()
        present, absent = generalised_cross_entropy(logits, self.q2), generalised_cross_entropy(-logits, self.q3)
        unknown = v * (k * present + (1 - k) * absent)
        return torch.where(batch.observed == UNKNOWN, unknown, bce(logits, batch.observed)).mean()


method = GeneralisedRobust
