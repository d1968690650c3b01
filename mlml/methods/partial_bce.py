"""Partial BCE: the observed labels, weighted by how many there are (Durand 2019)."""

from torch import Tensor

from mlml.labels import UNKNOWN
from mlml.methods.base import NonNegative, Positive, stateless
from mlml.methods.shared.losses import bce


def partial_bce(
    logits: Tensor, observed: Tensor, *, alpha: float = -4.45, beta: NonNegative = 5.45, gamma: Positive = 1.0
) -> Tensor:
    """g(s)/L * sum of the binary cross entropy over an image's observed labels, mean over the batch.

    s is the share of the image's labels that are observed, g(s) = alpha s^gamma + beta. The default alpha and beta
    make g(1) = 1, which is the loss on full labels, and g(0.1) = 5.005. (`bce` is g(s) = 1/s: an image with few labels
    counts as much as any other.)

    Args:
        logits: float [b, L].
        observed: int8 [b, L].

    Returns:
        scalar.
    """
    seen = (observed != UNKNOWN).to(logits.dtype)
    weight = alpha * seen.mean(1) ** gamma + beta
    return (weight * (seen * bce(logits, observed)).mean(1)).mean()


method = stateless(partial_bce, needs_absent=True)
