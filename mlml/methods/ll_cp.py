"""Large loss correction, permanent: unknown labels with large losses become positives for good (Kim 2022, "LL-Cp")."""

import torch
from torch import Tensor

from mlml.labels import PRESENT, UNKNOWN
from mlml.methods.base import Batch, Method, Share, TrainLabels
from mlml.methods.shared.losses import bce, large_losses


class PermanentCorrection(Method):
    """The loss of `an`; in each step from epoch 2 on, the labels that `large_losses` finds become present.

    They are so in this step's loss already. This is the form of the authors' later code (Kim 2023, "Bridging the Gap
    between Model Explanations in Partially Annotated Multi-label Classification"). The code released with the paper
    compares the method's name by `is`, which is false for a word of the command line: it runs LL-Ct instead.

    Args:
        delta: the share of a batch's labels that each step corrects, the same in all epochs. (0.1 percent in the
            authors' later code.)
    """

    def __init__(self, train: TrainLabels, *, delta: Share = 0.001) -> None:
        super().__init__()
        self.delta = delta
        self.labels: Tensor
        self.register_buffer("labels", train.observed.clone())  # int8 [n, L], the corrected ones present

    def forward(self, logits: Tensor, batch: Batch, epoch: int) -> Tensor:
        """The loss of `an` on the corrected labels, mean over all b L labels."""
        labels = self.labels[batch.index]
        if epoch > 1:
            large = large_losses(bce(logits, labels), labels == UNKNOWN, self.delta)
            labels = labels.masked_fill(large, PRESENT)
            self.labels[batch.index] = labels
        return bce(logits, labels).mean()

    def pseudo_labels(self, index: Tensor) -> Tensor:
        """1 where a label is present or was corrected, else 0."""
        return (self.labels[index] == PRESENT).to(torch.float32)


method = PermanentCorrection
