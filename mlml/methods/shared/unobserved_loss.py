"""The paper's loss of the unknown labels, which holds predictions and pseudo labels against each other.

y^ is the prediction sigmoid(logit), y~ the pseudo label; the paper is named in `mlml.methods.shared.pseudo_labels`.
"""

import torch
from torch import Tensor

from mlml.labels import ABSENT, PRESENT, UNKNOWN
from mlml.methods.shared.losses import mean_where

LOG_MIN = 1e-4  # arguments of log are kept in [1e-4, 1 - 1e-4]


def imbalance_weights(observed: Tensor) -> tuple[float, float]:
    """C1 = N / T_o and C2 = P / T_o of the observed labels of the training set (paper, below eq. `lcfs`).

    N, P and T_o = N + P count the observed negatives, positives and labels. Under PPL and SPL they are 0 and 1.

    Args:
        observed: int8 [n, L], not all UNKNOWN.
    """
    negatives, positives = (int(torch.count_nonzero(observed == value)) for value in (ABSENT, PRESENT))
    return negatives / (negatives + positives), positives / (negatives + positives)


def cfs(x: Tensor, q: Tensor, c1: float, c2: float) -> Tensor:
    """-[C1 x log q + C2 (1 - x) log(1 - q)] of every label: x the target, q the probability (eq. `lcfs`).

    Args:
        x: float [b, L] in 0..1.
        q: float [b, L] in 0..1; inside log it is kept in [1e-4, 1 - 1e-4].

    Returns:
        float [b, L].
    """
    q = q.clamp(LOG_MIN, 1 - LOG_MIN)
    return -(c1 * x * q.log() + c2 * (1 - x) * (1 - q).log())


def unobserved_loss(
    logits: Tensor, target: Tensor, observed: Tensor, alpha: float, beta: float, c1: float, c2: float
) -> Tensor:
    """Loss of the unknown labels (paper, eq. `un`), mean over the batch.

    L_unobs = 1/U_i sum_j [alpha CFS(target y~, prob y^) + beta CFS(target y^, prob y~)] over the U_i unknown
    labels of image i; 0 for an image without any. alpha weighs the term that trains y^ towards y~, beta the
    reverse one, as in symmetric cross entropy (Wang 2019) and as eq. `SBCE` reads with the argument order of
    eq. `bce`; eq. `lcfs` swaps the arguments, which would give alpha to the reverse term.

    Args:
        logits: float [b, L].
        target: y~ after the threshold, float [b, L], without gradient.
        observed: int8 [b, L].

    Returns:
        scalar.
    """
    prediction = logits.sigmoid()
    loss = alpha * cfs(target, prediction, c1, c2) + beta * cfs(prediction, target, c1, c2)
    return mean_where(loss, observed == UNKNOWN).mean()
