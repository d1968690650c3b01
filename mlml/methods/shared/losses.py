"""Loss terms that several methods share."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from mlml.labels import PRESENT, UNKNOWN


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Binary cross entropy of every label with a target that may lie between 0 and 1, not reduced.

    -[t log y^ + (1 - t) log(1 - y^)], y^ = sigmoid(logit), in the form that is exact and has a gradient at any logit.

    Args:
        logits: float [b, L].
        target: t, float [b, L] in 0..1.

    Returns:
        float [b, L].
    """
    return F.binary_cross_entropy_with_logits(logits, target, reduction="none")


def bce(logits: Tensor, observed: Tensor) -> Tensor:
    """Binary cross entropy of every label, not reduced; UNKNOWN is taken as absent.

    -[y log y^ + (1 - y) log(1 - y^)], y^ = sigmoid(logit) (paper, eq. `bce`).

    Args:
        logits: float [b, L].
        observed: int8 [b, L] of PRESENT, ABSENT, UNKNOWN.

    Returns:
        float [b, L].
    """
    return cross_entropy(logits, (observed == PRESENT).to(logits.dtype))


def focal(logits: Tensor, present: Tensor, gamma: float) -> Tensor:
    """Focal loss of every label (Lin 2017), not reduced.

    -(1 - q)^gamma log q, q = y^ where the label is present and 1 - y^ elsewhere. The weight is taken in the
    logarithm: a power of 1 - q itself has no gradient where 1 - q is 0.

    Args:
        logits: float [b, L].
        present: bool [b, L].
        gamma: 0 gives the binary cross entropy.

    Returns:
        float [b, L].
    """
    own = torch.where(present, logits, -logits)
    return (gamma * F.logsigmoid(-own)).exp() * -F.logsigmoid(own)


def with_margin(logits: Tensor, observed: Tensor, margin: float) -> Tensor:
    """Logits from which a margin is taken where the label is PRESENT (Zhang 2021, "focal margin").

    So a positive has a loss until its logit is well above 0.

    Args:
        logits: float [b, L].
        observed: int8 [b, L].

    Returns:
        float [b, L].
    """
    return torch.where(observed == PRESENT, logits - margin, logits)


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


def large_losses(loss: Tensor, unknown: Tensor, share: float) -> Tensor:
    """The k = ceil(b L share) unknown labels of a batch with the largest losses (Kim 2022, "Large Loss Matters").

    A model learns clean labels first: these are taken to be false negatives.

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
