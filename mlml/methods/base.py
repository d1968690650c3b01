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
    """What a method sees of a batch: no ground truth.

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
        prior: expected number of present labels per image, if known.
        epochs: how many epochs the run has (T_e in the paper).
        sampled: whether the observed labels are a sample of all labels, if known.
    """

    observed: Tensor
    prior: float | None = None
    epochs: int = 10
    sampled: bool | None = None

    def all_sampled(self) -> bool:
        """Whether the observed labels are a sample of all labels (FOL, POL), not of the present ones (PPL, SPL).

        If that is not known, it is ruled out by unknown labels together with fewer observed negatives than positives,
        since most labels are absent: a few noted negatives do not make a sample of all labels.
        """
        if self.sampled is not None:
            return self.sampled
        positives, negatives = (int((self.observed == value).count_nonzero()) for value in (PRESENT, ABSENT))
        return positives + negatives == self.observed.numel() or negatives >= max(positives, 1)

    def estimated_positives(self) -> float | None:
        """P_p / m: present labels per image, estimated from the observed labels (paper, below eq. `intipse`).

        P_p is the mean number of observed positives per image, m the observed share of all labels. None unless
        `all_sampled`: from present labels alone P_p / m would always be the number of classes.
        """
        if not self.all_sampled():
            return None
        positives = int((self.observed == PRESENT).count_nonzero()) / len(self.observed)
        return positives / (int(self.observed.count_nonzero()) / self.observed.numel())


class Method(nn.Module):
    """A way to learn from missing labels: a loss and its state.

    State per training image is a buffer or a parameter [n, L] indexed by `Batch.index`, so that saving, resuming and
    moving to the device need no further code. A method's parameters are trained together with the model's.
    """

    name: str = ""
    """The name by which it was built."""

    lr_scale: float = 1.0
    """The method's own parameters train at this multiple of the learning rate."""

    notes: tuple[str, ...] = ()
    """Lines for the user before training: what was chosen, or what cannot work with these labels."""

    wants_predictions: bool = False
    """Whether `end_epoch` needs the epoch's predictions, which the loop then keeps."""

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
            predictions: float32 [n, L], the sigmoids of the logits of this epoch's training steps, for every
                training image; None unless `wants_predictions`.
        """

    def pseudo_labels(self, index: Tensor) -> Tensor | None:
        """The method's current pseudo labels of these training images, float32 [b, L] in 0..1, for the figures.

        None for a method without pseudo labels.
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
        needs_absent: whether nothing but observed negatives teaches absence; if there are none, a note says so.
    """
    takes_epoch = "epoch" in signature(loss).parameters

    @wraps(loss)  # the loss's signature names the options
    def method(train: TrainLabels, **options: Any) -> Method:
        lacking = needs_absent and not (train.observed == ABSENT).any()
        return _Stateless(loss, takes_epoch, options, NO_ABSENT if lacking else "")

    return method
