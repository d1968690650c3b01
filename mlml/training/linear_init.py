"""Training of the linear layer alone, as a start for the training end to end (Cole 2021, "LinearInit")."""

import copy
import logging
from math import isfinite

import torch

from mlml.methods.base import Batch, Method
from mlml.model.classifier import Classifier, LinearProbe
from mlml.model.loader import Examples
from mlml.model.predict import as_features
from mlml.training.optimizer import Optimizer
from mlml.training.recipe import Recipe
from mlml.training.validation import REMEDY, validation_map

logger = logging.getLogger(__name__)


def train_head(
    model: Classifier,
    method: Method,
    train: Examples,
    validation: Examples,
    recipe: Recipe,
    random: torch.Generator,
) -> None:
    """Train the head for `recipe.linear_init` epochs on features that are computed once.

    The backbone stays as it is, in evaluation mode, and images are not mirrored, as in the source. The method's own
    parameters are trained too. To the method all of this is epoch 1, without an end: its schedule starts with the
    training end to end, for which the optimizer starts anew. The head and the method are left as they were after the
    epoch with the best validation mAP, as in the source.

    Raises:
        FloatingPointError: the loss or a prediction is not finite; names the epoch and the method.
    """
    train, validation = as_features(model, train), as_features(model, validation)
    assert isinstance(train.images, torch.Tensor)
    inputs, observed = train.images, torch.from_numpy(train.labels).to(model.device)
    optimizer, probe, best = Optimizer(model.head.parameters(), method, recipe.lr), LinearProbe(model), -1.0
    for epoch in range(1, recipe.linear_init + 1):
        total = torch.zeros((), device=inputs.device)
        for rows in torch.randperm(len(inputs), generator=random).split(recipe.batch_size):
            index = rows.to(inputs.device)
            optimizer.zero_grad()
            loss = method(model.head(inputs[index]).float(), Batch(observed[index], index), 1)
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(rows)
        mean, where = total.item() / len(inputs), f"linear_init, epoch {epoch}"
        if not isfinite(mean):
            raise FloatingPointError(f"{where}: the loss of method {method.name} is {mean}; {REMEDY}")
        score = validation_map(probe, validation, where, method.name)
        logger.info(f"linear init {epoch:2d}/{recipe.linear_init}  loss {mean:.4f}  validation mAP {score:.2f}")
        if score > best:
            optimizer.settle()
            best, kept = score, copy.deepcopy((model.head.state_dict(), method.state_dict()))
    optimizer.close()
    model.head.load_state_dict(kept[0])
    method.load_state_dict(kept[1])
