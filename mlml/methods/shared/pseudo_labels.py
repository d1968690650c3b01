"""The paper's method: soft pseudo labels for the unknown labels, updated from running averages.

Zhang, Abdelfattah, Song, Wang: "An Effective Approach for Multi-label Classification with Missing Labels".
y^ is the prediction sigmoid(logit), y~ the pseudo label. Where the text can be read in more than one way,
the docstring says which reading is taken and why.
"""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from mlml.labels import PRESENT, UNKNOWN, slices
from mlml.methods.base import Batch, Method, NonNegative, Share, TrainLabels
from mlml.methods.shared.losses import observed_bce
from mlml.methods.shared.unobserved_loss import imbalance_weights, unobserved_loss

ThresholdMode = Literal["round_up", "binary", "none"]


def expected_positives(train: TrainLabels) -> float:
    """K: how many positives an image is expected to have, at least 1 (paper, eq. `intipse`).

    K = max(P_p / m, 1); see `TrainLabels.estimated_positives`. Where that is None (PPL, SPL) the data set's prior
    stands for P_p / m, as the paper speaks of "the prior knowledge of the datasets", or P_p, the observed
    positives per image, where none is known.
    """
    estimate = train.estimated_positives()
    if estimate is None:
        estimate = train.prior
    if estimate is None:
        estimate = int(torch.count_nonzero(train.observed == PRESENT)) / len(train.observed)
    return max(estimate, 1.0)


def initial_pseudo_labels(observed: Tensor, expected: float) -> Tensor:
    """Initial y~ of the unknown labels (paper, eq. `intipse`); at observed places the label itself, 0 or 1.

    y~_ij = min((K - P_i) / U_i, 1) if K > P_i, else 0; P_i and U_i are the observed positives and the unknown
    labels of image i.

    Args:
        observed: int8 [n, L].
        expected: K.

    Returns:
        float32 [n, L].
    """
    result = torch.empty(observed.shape)
    for rows in slices(*observed.shape):  # sums of masks of the whole matrix would be eight bytes per label
        part = observed[rows]
        positives, unknown = (part == PRESENT).sum(1), (part == UNKNOWN).sum(1)
        value = ((expected - positives) / unknown.clamp(min=1)).clamp(0, 1).float()
        result[rows] = torch.where(part == UNKNOWN, value[:, None], (part == PRESENT).float())
    return result


def running_average(stack: Tensor) -> Tensor:
    """y~ = 1/n sum_k y^^{m-k}: mean of the predictions of the last n epochs (paper, eq. `update`).

    Args:
        stack: float [n, ...].
    """
    return stack.mean(0)


def undecided(stack: Tensor, d: float) -> Tensor:
    """The detector: where all predictions on the stack lie in [0.5 - d, 0.5 + d].

    Args:
        stack: float [n, ...].

    Returns:
        bool [...].
    """
    return ((stack >= 0.5 - d) & (stack <= 0.5 + d)).all(0)


def disturbed(prediction: Tensor, uniform: Tensor) -> Tensor:
    """Push an undecided y~ away from 0.5 (paper, eq. `dis`).

    y~ = y^ - random(0, y^) if y^ < 0.5, else y^ + random(0, 1 - y^).

    Args:
        prediction: y^ of this epoch, float [...].
        uniform: random numbers in [0, 1), float [...].
    """
    return torch.where(prediction < 0.5, prediction * (1 - uniform), prediction + (1 - prediction) * uniform)


def thresholded(pseudo: Tensor, t: float, mode: ThresholdMode) -> Tensor:
    """f(y~, t): y~ as it enters the loss.

    The paper names f and t = 0.7, but not what f does below t. "round_up": y~ >= t becomes 1, the rest stays,
    so that the initial values, which are small, keep the meaning the paper gives them. "binary": the rest
    becomes 0. "none": y~ as it is.

    Args:
        pseudo: float [...].
    """
    if mode == "none":
        return pseudo
    return torch.where(pseudo >= t, 1.0, 0.0 if mode == "binary" else pseudo)


def curriculum_weights(epoch: int, epochs: int) -> tuple[float, float]:
    """((T_e - e/2) / T_e, (e/2) / T_e): weights of the observed and the unobserved loss (paper, eq. `fina`)."""
    share = epoch / 2 / epochs
    return 1 - share, share


class PseudoLabel(Method):
    """The loss of eq. `fina` with pseudo labels that follow Algorithm 1.

    Where mostly positives are observed, the default of `weighted` leaves the paper; docs/readings.md has the figures.

    Args:
        train: observed labels of the training set; at least one label must be observed.
        alpha: weight of the term that trains predictions towards pseudo labels.
        beta: weight of the reverse term.
        threshold: t of `thresholded`.
        threshold_mode: what the threshold does; see `thresholded`.
        stack_size: n, how many epochs the running average spans.
        start_epoch: D_s; pseudo labels change after the epochs e with D_s < e < D_e.
        end_epoch: D_e.
        d: half width of the interval in which a prediction counts as undecided.
        c1: weight of the positive part of `cfs`; None: see `imbalance`.
        c2: weight of the negative part; None: see `imbalance`.
        update: False is the ablation "without update": pseudo labels keep their initial values.
        update_every_epoch: the running average is taken after every epoch and only the detector keeps to
            D_s < e < D_e. (The text says "after each epoch"; Algorithm 1, which is taken by default, puts
            both inside the window.)
        disturbances: False is the ablation "without disturbances".
        imbalance: whether C1 and C2 are those of `imbalance_weights`; False is the ablation "without imbalance design":
            C1 = C2 = 1. None: where `TrainLabels.all_sampled`. Elsewhere C1 is 0, or nearly, of the way the labels were
            found, not of a rarity of negatives, and no pseudo label would speak for presence. The paper's are always
            those.
        weighted: whether L is eq. `fina`; False is the ablation "without weighted loss": L_obs + L_unobs (eq.
            `bcepse`). None: where `TrainLabels.all_sampled`. Elsewhere L_obs knows positives, and its weight in the
            first epochs teaches that all is present. The paper weights everywhere.
    """

    def __init__(
        self,
        train: TrainLabels,
        *,
        alpha: NonNegative = 0.95,
        beta: NonNegative = 0.05,
        threshold: Share = 0.7,
        threshold_mode: ThresholdMode = "round_up",
        stack_size: Annotated[int, Field(ge=1)] = 3,
        start_epoch: Annotated[int, Field(ge=0)] = 3,
        end_epoch: Annotated[int, Field(ge=0)] = 7,
        d: Annotated[float, Field(ge=0, le=0.5)] = 0.2,
        c1: NonNegative | None = None,
        c2: NonNegative | None = None,
        update: bool = True,
        update_every_epoch: bool = False,
        disturbances: bool = True,
        imbalance: bool | None = None,
        weighted: bool | None = None,
    ) -> None:
        super().__init__()
        observed = train.observed
        if not (observed != UNKNOWN).any():
            raise ValueError("no label of the training set is observed; at least one is needed")
        if update and not update_every_epoch and end_epoch < start_epoch + 2:
            raise ValueError(
                f"end_epoch: {end_epoch} is not allowed; no epoch e has {start_epoch} < e < {end_epoch}; "
                "update: false is the ablation without updates"
            )
        if imbalance is False and (c1 is not None or c2 is not None):
            names = " and ".join(name for name, value in (("c1", c1), ("c2", c2)) if value is not None)
            raise ValueError(f"imbalance: False is not allowed with {names}: it sets both to 1")
        self.alpha, self.beta = alpha, beta
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.window = range(start_epoch + 1, end_epoch)
        self.d = d
        self.update, self.update_every_epoch, self.disturbances = update, update_every_epoch, disturbances
        self.weighted = train.all_sampled() if weighted is None else weighted
        self.epochs = train.epochs
        balanced = not (train.all_sampled() if imbalance is None else imbalance)
        counted = (1.0, 1.0) if balanced else imbalance_weights(observed)
        self.c1, self.c2 = (counted[0] if c1 is None else c1), (counted[1] if c2 is None else c2)
        self.wants_predictions = update
        self.pseudo: Tensor
        self.stack: Tensor
        self.filled: Tensor
        self.unknown: Tensor
        expected = expected_positives(train)
        curriculum = "weights of eq. fina" if self.weighted else "observed and unknown labels weigh alike"
        self.notes = (f"C1 {self.c1:.3g}, C2 {self.c2:.3g}, K {expected:.3g}, {curriculum}",)
        first = 1 if update_every_epoch else start_epoch + 1
        if update and first >= train.epochs:
            self.notes += (f"no pseudo label is updated: it would be after epoch {first} of {train.epochs}",)
        self.register_buffer("pseudo", initial_pseudo_labels(observed, expected))
        self.register_buffer("unknown", observed == UNKNOWN, persistent=False)
        self.register_buffer("stack", torch.zeros(min(stack_size, train.epochs) if update else 0, *observed.shape))
        self.register_buffer("filled", torch.zeros((), dtype=torch.int64))

    def forward(self, logits: Tensor, batch: Batch, epoch: int) -> Tensor:
        """L = (T_e - e/2)/T_e L_obs + (e/2)/T_e L_unobs (paper, eq. `fina`)."""
        observed_weight, unobserved_weight = curriculum_weights(epoch, self.epochs) if self.weighted else (1.0, 1.0)
        target = thresholded(self.pseudo[batch.index], self.threshold, self.threshold_mode)
        unobserved = unobserved_loss(logits, target, batch.observed, self.alpha, self.beta, self.c1, self.c2)
        return observed_weight * observed_bce(logits, batch.observed) + unobserved_weight * unobserved

    def end_epoch(self, epoch: int, predictions: Tensor | None) -> None:
        """Algorithm 1 for all training images at once: push y^, then average or disturb.

        The stack keeps the raw predictions: a disturbance changes y~ alone.
        """
        inside = epoch in self.window
        if predictions is None or not (inside or self.update_every_epoch):
            return
        self.filled.add_(1).clamp_(max=len(self.stack))
        count = int(self.filled)
        for rows in slices(*predictions.shape):
            recent = self.stack[:count, rows]
            for place in range(count - 1, 0, -1):
                recent[place] = recent[place - 1]
            recent[0] = predictions[rows]
            pseudo = running_average(recent)
            if inside and self.disturbances:
                away = disturbed(recent[0], torch.rand_like(recent[0]))
                pseudo = torch.where(undecided(recent, self.d), away, pseudo)
            self.pseudo[rows] = torch.where(self.unknown[rows], pseudo, self.pseudo[rows])

    def pseudo_labels(self, index: Tensor) -> Tensor:
        """y~ of these training images, float32 [b, L]; at observed places the label itself."""
        return self.pseudo[index]
