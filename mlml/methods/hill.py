"""Hill loss: an unknown label with a high score may be a missing positive (Zhang 2021).

"Simple and Robust Loss Design for Multi-Label Learning with Missing Labels"; values as in the source's code.
"""

import torch
from torch import Tensor

from mlml.labels import PRESENT, UNKNOWN
from mlml.methods.base import NonNegative, stateless
from mlml.methods.shared.losses import focal, with_margin


def hill_loss(
    logits: Tensor, observed: Tensor, *, lam: NonNegative = 1.5, margin: NonNegative = 1.0, gamma: NonNegative = 2.0
) -> Tensor:
    """Unknown: (lambda - p) p^2; observed: the focal loss, with a margin on positives. Mean over all b L labels.

    p = sigmoid(logit); a positive's loss is -(1 - q)^gamma log q, q = sigmoid(logit - margin). The slope of the hill
    falls again beyond p = lambda/3, to 0 at 2 lambda/3: a high score is left alone. An observed negative, which the
    source does not have, cannot be a missing positive: its loss is -p^gamma log(1 - p), that of `splc`. (The source
    sums over the batch: another scale.)

    Args:
        logits: float [b, L].
        observed: int8 [b, L].
        lam: lambda.

    Returns:
        scalar.
    """
    p = logits.sigmoid()
    known = focal(with_margin(logits, observed, margin), observed == PRESENT, gamma)
    return torch.where(observed == UNKNOWN, (lam - p) * p**2, known).mean()


method = stateless(hill_loss)
