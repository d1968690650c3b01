"""ROLE, regularised online label estimation (Cole 2021, "Multi-Label Learning from Single Positive Labels")."""

from math import log

import torch
from torch import Tensor, nn

from mlml.labels import ABSENT, PRESENT, UNKNOWN
from mlml.methods.base import Batch, Method, Positive, TrainLabels
from mlml.methods.shared.losses import bce, cross_entropy


def logit(p: float) -> float:
    """log(p / (1 - p))."""
    return log(p / (1 - p))


class Role(Method):
    """The classifier f and an estimate g of all labels teach each other, and each keeps the expected positives.

    g is one trained logit per training image and label. With its gradient and Adam's two moments it takes 16 n L bytes,
    and each step moves all of it, as in the source.

    Args:
        k: expected present labels per image; None: the data set's prior, else estimated from the observed labels.
        lr_scale: g trains at this multiple of the learning rate.

    Raises:
        ValueError: k is not given, the prior is unknown, and it cannot be estimated; see `TrainLabels`.
    """

    def __init__(self, train: TrainLabels, *, k: Positive | None = None, lr_scale: Positive = 10.0) -> None:
        super().__init__()
        expected = [each for each in (k, train.prior, train.estimated_positives()) if each is not None]
        if not expected:
            raise ValueError(
                "k: null is not allowed here; with fewer observed negatives than positives the number of present "
                "labels per image cannot be estimated: set k or train.prior"
            )
        self.k, self.lr_scale = expected[0], lr_scale
        if k is not None and k > train.observed.shape[1]:
            raise ValueError(f"k: {k:g} is not allowed; there are {train.observed.shape[1]} classes")
        self.observed: Tensor
        self.register_buffer("observed", train.observed, persistent=False)
        g = (2 * torch.rand(train.observed.shape) - 1) * logit(0.6)
        g[train.observed == PRESENT], g[train.observed == ABSENT] = logit(0.995), logit(0.005)
        self.g = nn.Parameter(g)  # float32 [n, L]

    def forward(self, logits: Tensor, batch: Batch, epoch: int) -> Tensor:
        """1/2 [side(f, g) + side(g, f)]; see `side`."""
        g = self.g[batch.index]
        return (self.side(logits, g, batch.observed) + self.side(g, logits, batch.observed)) / 2

    def side(self, own: Tensor, other: Tensor, observed: Tensor) -> Tensor:
        """Cross entropy with the observed labels + with the other's predictions + ((positives - k) / L)^2.

        Both are means over all b L labels, the first 0 where unknown; the other's predictions carry no gradient;
        positives is the sum over the classes of the predictions, mean over the batch. In the source only positives are
        observed; here observed negatives are in the first term too.

        Args:
            own: logits, float [b, L].
            other: logits, float [b, L].
            observed: int8 [b, L].

        Returns:
            scalar.
        """
        seen = (bce(own, observed) * (observed != UNKNOWN)).mean()
        agreement = cross_entropy(own, other.detach().sigmoid()).mean()
        positives = own.sigmoid().sum(1).mean()
        return seen + agreement + ((positives - self.k) / own.shape[1]) ** 2

    def pseudo_labels(self, index: Tensor) -> Tensor:
        """sigmoid(g); at observed places the label itself."""
        observed = self.observed[index]
        return torch.where(observed == UNKNOWN, self.g[index].sigmoid(), (observed == PRESENT).float())


method = Role
