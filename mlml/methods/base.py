"""The protocol between a method and the training loop."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from torch import Tensor, nn


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
    """

    observed: Tensor
    prior: float | None = None
    epochs: int = 10


class Method(nn.Module):
    """A way to learn from missing labels: a loss, and whatever state it needs.

    State for each training image is a buffer [n, L] indexed by `Batch.index`, so that saving, resuming and
    moving to the device need no further code. Parameters of a method are trained with the model's.
    """

    name: str = ""
    """The name it was built by."""

    lr_scale: float = 1.0
    """The method's own parameters train at this multiple of the learning rate."""

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


class BatchLoss(Protocol):
    """A loss that is a function of a batch and nothing else."""

    def __call__(self, logits: Tensor, observed: Tensor) -> Tensor: ...


class _Stateless(Method):
    def __init__(self, loss: BatchLoss) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, logits: Tensor, batch: Batch, epoch: int) -> Tensor:
        return self.loss(logits, batch.observed)


def stateless(loss: BatchLoss) -> Callable[[TrainLabels], Method]:
    """Lift a loss without state or options to a method."""

    def method(train: TrainLabels) -> Method:
        return _Stateless(loss)

    return method
