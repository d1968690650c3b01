"""Training of the linear layer alone, as a start for the training end to end (Cole 2021, "LinearInit")."""

from math import isfinite

import torch

from mlml.inference import features
from mlml.inputs import Examples
from mlml.methods.base import Batch, Method
from mlml.model import Classifier
from mlml.optimizer import Optimizer
from mlml.recipe import Recipe


def train_head(model: Classifier, method: Method, train: Examples, recipe: Recipe, random: torch.Generator) -> None:
    """Train the head for `recipe.linear_init` epochs on features that are computed once.

    The backbone stays as it is, in evaluation mode, and images are not mirrored, as in the source. The method's own
    parameters are trained too. To the method all of this is epoch 1, without an end: its schedule starts with the
    training end to end, for which the optimizer starts anew. The weights of the last epoch are kept; the source takes
    those of the epoch with the best validation mAP.

    Raises:
        FloatingPointError: the loss is not finite; names the epoch and the method.
    """
    inputs, observed = features(model, train), torch.from_numpy(train.labels).to(model.device)
    optimizer = Optimizer(model.head.parameters(), method, recipe.lr)
    for epoch in range(1, recipe.linear_init + 1):
        total = torch.zeros((), device=inputs.device)
        for rows in torch.randperm(len(inputs), generator=random).split(recipe.batch_size):
            index = rows.to(inputs.device)
            loss = method(model.head(inputs[index]).float(), Batch(observed[index], index), 1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(rows)
        mean = total.item() / len(inputs)
        if not isfinite(mean):
            raise FloatingPointError(
                f"linear_init, epoch {epoch}: the loss of method {method.name} is {mean}; a lower train.lr often helps"
            )
        print(f"linear init {epoch:2d}/{recipe.linear_init}  loss {mean:.4f}", flush=True)
