"""Large loss correction, temporary: unknown labels with large losses are positives in this step (Kim 2022, "LL-Ct")."""

from torch import Tensor

from mlml.labels import PRESENT, UNKNOWN
from mlml.methods.base import Share, stateless
from mlml.methods.shared.losses import bce, large_losses


def temporary_correction(logits: Tensor, observed: Tensor, epoch: int, *, delta: Share = 0.002) -> Tensor:
    """The loss of `an`, in which the labels that `large_losses` finds are present. Mean over all b L labels.

    Args:
        logits: float [b, L].
        observed: int8 [b, L].
        epoch: e, from 1.
        delta: in epoch e the share delta (e - 1) of a batch's labels is corrected. (0.2 percent in the authors' later
            code, for Kim 2023.)

    Returns:
        scalar.
    """
    large = large_losses(bce(logits, observed), observed == UNKNOWN, delta * (epoch - 1))
    return bce(logits, observed.masked_fill(large, PRESENT)).mean()


method = stateless(temporary_correction)
