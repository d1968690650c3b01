"""Binary cross entropy on the observed labels with label smoothing (Szegedy 2016; the paper's BCE-LS)."""

from typing import Annotated

from pydantic import Field
from torch import Tensor

from mlml.labels import PRESENT, UNKNOWN
from mlml.methods.base import stateless
from mlml.methods.shared.losses import cross_entropy, mean_where


def smoothed_bce(logits: Tensor, observed: Tensor, *, smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.1) -> Tensor:
    """(1 - s) * cross entropy with the label + s * cross entropy with its opposite.

    Mean over each image's observed labels, then over the batch, as `bce`, which it is at s = 0. An image without
    observed labels counts 0.

    Args:
        logits: float [b, L].
        observed: int8 [b, L].
        smoothing: s, as in the code of Cole 2021; Szegedy's epsilon is 2 s.

    Returns:
        scalar.
    """
    target = smoothing + (1 - 2 * smoothing) * (observed == PRESENT).to(logits.dtype)
    return mean_where(cross_entropy(logits, target), observed != UNKNOWN).mean()


method = stateless(smoothed_bce, needs_absent=True)
