"""Weak assume negative: as `an`, with unknown labels weighted down (Mac Aodha 2019; Cole 2021, "WAN")."""

import torch
from torch import Tensor

from mlml.labels import UNKNOWN
from mlml.methods.base import NonNegative, stateless
from mlml.methods.shared.losses import bce


def weak_assume_negative(logits: Tensor, observed: Tensor, *, weight: NonNegative | None = None) -> Tensor:
    """-1/(b L) sum_ij w_ij [y_ij log y^_ij + (1 - y_ij) log(1 - y^_ij)], y = 1 where observed present, else 0.

    w_ij is `weight` where the label is unknown, else 1. Observed negatives, which the source does not have, so count
    as much as positives.

    Args:
        logits: float [b, L].
        observed: int8 [b, L].
        weight: None is 1/(L - 1): all assumed negatives of an image together weigh as much as one positive. With a
            single class, where that is not defined, 1.

    Returns:
        scalar.
    """
    if weight is None:
        weight = 1 / max(logits.shape[1] - 1, 1)
    loss = bce(logits, observed)
    return torch.where(observed == UNKNOWN, weight * loss, loss).mean()


method = stateless(weak_assume_negative)
