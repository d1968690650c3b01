"""SPLC, self-paced loss correction: an unknown label with a high score becomes a positive (Zhang 2021).

"Simple and Robust Loss Design for Multi-Label Learning with Missing Labels"; values as in the source's code.
"""

from typing import Annotated

from pydantic import Field
from torch import Tensor

from mlml.labels import PRESENT, UNKNOWN
from mlml.methods.base import NonNegative, Positive, stateless
from mlml.methods.shared.losses import focal, with_margin


def self_paced_loss_correction(
    logits: Tensor,
    observed: Tensor,
    epoch: int,
    *,
    threshold: Positive = 0.6,
    start_epoch: Annotated[int, Field(ge=1)] = 2,
    margin: NonNegative = 1.0,
    gamma: NonNegative = 2.0,
) -> Tensor:
    """Focal loss with a margin on observed positives; unknown is absent, or present where p > threshold.

    -(1 - q)^gamma log q with q = sigmoid(logit - margin) of an observed positive, q = p = sigmoid(logit) of an unknown
    label with p > threshold from `start_epoch` on, and q = 1 - p of all others. Mean over all b L labels (the source
    sums over the batch: another scale). Observed negatives, which the source does not have, stay negatives.

    Args:
        logits: float [b, L].
        observed: int8 [b, L].
        epoch: from 1. (The source counts from 0, so that its `change_epoch` 1 is `start_epoch` 2.)
        threshold: from 1 on no label is corrected.

    Returns:
        scalar.
    """
    present = observed == PRESENT
    if epoch >= start_epoch:
        present = present | ((observed == UNKNOWN) & (logits.sigmoid() > threshold))
    return focal(with_margin(logits, observed, margin), present, gamma).mean()


method = stateless(self_paced_loss_correction)
