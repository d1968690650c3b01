"""Which labels the large-loss methods take for wrong: a model learns clean labels first, so that those are false
negatives (Kim 2022, "Large Loss Matters in Weakly Supervised Multi-Label Classification").
"""

import math

import torch
from torch import Tensor


def large_losses(loss: Tensor, unknown: Tensor, share: float) -> Tensor:
    """The k = ceil(b L share) unknown labels of a batch with the largest losses.

    All that are not below the k-th, so more than k where losses are equal; all unknown labels where there are fewer
    than k. (The source's code ranks observed labels as losses of 0: where fewer are unknown than k, it takes them too.)

    Args:
        loss: float [b, L].
        unknown: bool [b, L].
        share: of all labels of the batch, the observed ones included; from 1 on all unknown labels.

    Returns:
        bool [b, L].
    """
    k = math.ceil(min(round(share * loss.numel(), 6), loss.numel()))  # 0.07 * 100 is 7, not 8
    if k == 0:
        return torch.zeros_like(unknown)
    candidates = loss.detach().masked_fill(~unknown, -math.inf)
    return unknown & (candidates >= candidates.flatten().topk(k).values[-1])
