"""Binary cross entropy on observed labels: the term that several methods share."""

import torch.nn.functional as F
from torch import Tensor

from mlml.labels import PRESENT, UNKNOWN


def bce(logits: Tensor, observed: Tensor) -> Tensor:
    """Binary cross entropy of every label, not reduced; UNKNOWN is taken as absent.

    -[y log y^ + (1 - y) log(1 - y^)], y^ = sigmoid(logit) (paper, eq. `bce`), in the form that is exact and
    has a gradient at any logit.

    Args:
        logits: float [b, L].
        observed: int8 [b, L] of PRESENT, ABSENT, UNKNOWN.

    Returns:
        float [b, L].
    """
    target = (observed == PRESENT).to(logits.dtype)
    return F.binary_cross_entropy_with_logits(logits, target, reduction="none")


def mean_where(values: Tensor, mask: Tensor) -> Tensor:
    """Mean of each row's values where `mask` holds; 0 for a row where it holds nowhere.

    Args:
        values: float [b, L], finite.
        mask: bool [b, L].

    Returns:
        float [b].
    """
    return (values * mask).sum(1) / mask.sum(1).clamp(min=1)


def observed_bce(logits: Tensor, observed: Tensor) -> Tensor:
    """Loss of the observed labels (paper, eq. `ob`), mean over the batch.

    L_obs = -1/O_i sum_j [y_j log y^_j + (1 - y_j) log(1 - y^_j)] over the O_i observed labels of image i;
    0 for an image without any.

    Args:
        logits: float [b, L].
        observed: int8 [b, L].

    Returns:
        scalar.
    """
    return mean_where(bce(logits, observed), observed != UNKNOWN).mean()
