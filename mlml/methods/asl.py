"""Asymmetric loss; an unknown label is taken as absent (Ridnik 2021; the values are the paper's, Sec. V-C)."""

import math
from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from mlml.labels import PRESENT
from mlml.methods.base import NonNegative, stateless
from mlml.methods.shared.losses import focal


def asymmetric_loss(
    logits: Tensor,
    observed: Tensor,
    *,
    gamma_pos: NonNegative = 1.0,
    gamma_neg: NonNegative = 8.0,
    margin: Annotated[float, Field(ge=0, lt=1)] = 0.05,
) -> Tensor:
    """-sum_j [y_j (1 - p_j)^gamma+ log p_j + (1 - y_j) q_j^gamma- log(1 - q_j)], mean over the batch.

    p = sigmoid(logit), q = max(p - m, 0), y = 1 where observed present, else 0. The paper's eq. `asl` has q in the
    positive part too, where log 0 would appear, and says "gamma+ = 8, gamma- = 1"; as in the source the margin is on
    negatives only, and the larger exponent theirs. The source's own values are gamma- = 4, gamma+ = 0 or 1; its
    training script lets no gradient through the weights, its formula, taken here, does.

    Args:
        logits: float [b, L].
        observed: int8 [b, L].

    Returns:
        scalar.
    """
    present = observed == PRESENT
    # log(1 - q) = min(log((1 - p) + m), 0): finite where p is 1, also at m = 0.
    log_m = torch.full_like(logits, math.log(margin) if margin else -math.inf)
    negative = F.relu(-torch.logaddexp(F.logsigmoid(-logits), log_m))
    # A power below 1 has no finite gradient at 0.
    q = (logits.sigmoid() - margin).clamp(min=torch.finfo(logits.dtype).tiny)
    return torch.where(present, focal(logits, present, gamma_pos), q**gamma_neg * negative).sum(1).mean()


method = stateless(asymmetric_loss)
