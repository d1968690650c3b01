"""Assume negative: an unknown label is taken as absent (Kundu and Tighe 2020)."""

from torch import Tensor

from mlml.methods.base import stateless
from mlml.methods.shared.losses import bce


def assume_negative(logits: Tensor, observed: Tensor) -> Tensor:
    """-1/(b L) sum_ij [y_ij log y^_ij + (1 - y_ij) log(1 - y^_ij)], y = 1 where observed present, else 0.

    Observed negatives are negatives too, so under POL only the observed positives differ from "all absent".

    Args:
        logits: float [b, L].
        observed: int8 [b, L].

    Returns:
        scalar.
    """
    return bce(logits, observed).mean()


method = stateless(assume_negative)
