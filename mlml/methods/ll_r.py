"""Large loss rejection: unknown labels with large losses are left out (Kim 2022, "LL-R")."""

from torch import Tensor

from mlml.labels import UNKNOWN
from mlml.methods.base import Share, stateless
from mlml.methods.shared.losses import bce, large_losses


def large_loss_rejection(logits: Tensor, observed: Tensor, epoch: int, *, delta: Share = 0.005) -> Tensor:
    """The loss of `an`, without the labels that `large_losses` finds. Their place stays in the mean over b L labels.

    Args:
        logits: float [b, L].
        observed: int8 [b, L].
        epoch: e, from 1.
        delta: in epoch e the share delta (e - 1) of a batch's labels is left out. (The source writes it in percent
            and tries 0.1 to 0.5; the authors' later code, for Kim 2023, has 0.5.)

    Returns:
        scalar.
    """
    loss = bce(logits, observed)
    return loss.masked_fill(large_losses(loss, observed == UNKNOWN, delta * (epoch - 1)), 0).mean()


method = stateless(large_loss_rejection)
