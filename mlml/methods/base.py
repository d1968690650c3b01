"""The protocol between a method and the training loop."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Annotated, Any, NamedTuple

from pydantic import Field
from torch import Tensor, nn

from mlml.labels import ABSENT, PRESENT

# Types of options
Share = Annotated[float, Field(ge=0, le=1)]
NonNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]


class Batch(NamedTuple):
    """What a method sees of a batch. There is no truth in it: a method cannot peek.

    Attributes:
        observed: int8 [b, L], +1 present, -1 absent, 0 unknown.
        index: int64 [b], the images' rows in the training table.
    """

    observed: Tensor
    index: Tensor  # type: ignore[assignment]  # hides tuple.index


class TrainLabels(NamedTuple):
    """What a method may know before training.

    Attributes:
        observed: int8 [n, L], the observed labels of the whole training set.
        prior: expected number of present labels an image, if it is known.
        epochs: how many epochs the run has (T_e in the paper).
        sampled: whether the observed labels are a sample of all labels, if it is known.
    """

    observed: Tensor
    prior: float | None = None
    epochs: int = 10
    sampled: bool | None = None

    def all_sampled(self) -> bool:
        """Whether the observed labels are a sample of all labels (FOL, POL), not of the present ones (PPL, SPL).

        Where that is not known, they cannot be if some are unknown and fewer negatives than positives are observed:
        most labels are absent. A few negatives that somebody noted among the positives make no sample of all labels.
        """
        if self.sampled is not None:
            return self.sampled
        positives, negatives = (int((self.observed == value).count_nonzero()) for value in (PRESENT, ABSENT))
        return positives + negatives == self.observed.numel() or negatives >= max(positives, 1)

    def estimated_positives(self) -> float | None:
        """P_p / m: present labels an image, estimated from the observed labels (paper, below eq. `intipse`).

        P_p is the number of observed positives an image, m the observed share of all labels. None unless
        `all_sampled`: of present labels alone P_p / m would be the number of classes, always.
        """
        if not self.all_sampled():
            return None
        positives = int((self.observed == PRESENT).count_nonzero()) / len(self.observed)
        return positives / (int(self.observed.count_nonzero()) / self.observed.numel())


class Method(nn.Module):
    """A way to learn from missing labels: a loss, and whatever state it needs.

    State per training image is a buffer or a parameter [n, L] indexed by `Batch.index`, so that saving, resuming and
    moving to the device need no further code. A method's parameters are trained together with the model's.
    """

    name: str = ""
    """The name it was built by."""

    lr_scale: float = 1.0
    """The method's own parameters train at this multiple of the learning rate."""

    notes: tuple[str, ...] = ()
    """What a user should know of this run before it begins: what was chosen, or what cannot work."""

    wants_predictions: bool = False
    """Whether `end_epoch` needs the predictions of the epoch; the loop then keeps them."""

    def forward(self, logits: Tensor, batch: Batch, epoch: int) -> Tensor:
        """The loss of a batch.

        Args:
            logits: float32 [b, L].
            epoch: the number of the epoch, from 1.

        Returns:
            scalar.
        """
        raise NotImplementedError

    def end_epoch(self, epoch: int, predictions: Tensor | None) -> None:
        """Called after each epoch.

        Args:
            predictions: float32 [n, L], sigmoid of the logits that this epoch's training steps gave, every
                training image's; None unless `wants_predictions`.
        """

    def pseudo_labels(self, index: Tensor) -> Tensor | None:
        """What the method now takes the labels of these training images to be, float32 [b, L] in 0..1.

        None for a method that keeps no such thing. Only recorded, for the figures.
        """
        return None


class _Stateless(Method):
    def __init__(self, loss: Callable[..., Tensor], takes_epoch: bool, options: dict[str, Any], note: str) -> None:
        super().__init__()
        self.loss, self.takes_epoch, self.options = loss, takes_epoch, options
        self.notes = (note,) if note else ()

    def forward(self, logits: Tensor, batch: Batch, epoch: int) -> Tensor:
        more = {"epoch": epoch} if self.takes_epoch else {}
        return self.loss(logits, batch.observed, **more, **self.options)


NO_ABSENT = "no label is observed to be absent: it learns that all are present"


def stateless(loss: Callable[..., Tensor], needs_absent: bool = False) -> Callable[..., Method]:
    """Lift a loss without state to a method.

    Args:
        loss: a function of logits, float [b, L], and observed labels, int8 [b, L]; also of the epoch, from 1, if it
            has an argument `epoch`. Its keyword-only arguments are the method's options.
        needs_absent: whether only observed labels speak for absence; where there are none, that is noted.
    """
    takes_epoch = "epoch" in signature(loss).parameters

    @wraps(loss)  # so that its signature is the loss's, which names the options
    def method(train: TrainLabels, **options: Any) -> Method:
        lacking = needs_absent and not (train.observed == ABSENT).any()
        return _Stateless(loss, takes_epoch, options, NO_ABSENT if lacking else "")

    return method
