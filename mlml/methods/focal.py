"""Focal loss; an unknown label is taken as absent (Lin 2017; the values are the paper's, Sec. V-C)."""

import torch
from torch import Tensor

from mlml.labels import PRESENT
from mlml.methods.base import NonNegative, stateless
from mlml.methods.shared.losses import focal


def focal_loss(
    logits: Tensor,
    observed: Tensor,
    *,
    alpha_pos: NonNegative = 0.9,
    alpha_neg: NonNegative = 0.1,
    gamma: NonNegative = 2.0,
) -> Tensor:
    """-sum_j [y_j alpha+ (1 - p_j)^gamma log p_j + (1 - y_j) alpha- p_j^gamma log(1 - p_j)], mean over the batch.

    p = sigmoid(logit), y = 1 where observed present, else 0. The sum over the classes is the paper's.

    Args:
        logits: float [b, L].
        observed: int8 [b, L].

    Returns:
        scalar.
    """
    present = observed == PRESENT
    loss = focal(logits, present, gamma)
    return torch.where(present, alpha_pos * loss, alpha_neg * loss).sum(1).mean()


method = stateless(focal_loss)
