"""The linear layer alone, trained by all that trains whole models."""

from pathlib import Path

import numpy as np
import pytest
import torch

from mlml import methods
from mlml.checkpoints.checkpoint import Checkpoint
from mlml.methods.shared.losses import bce
from mlml.model.classifier import Classifier, LinearProbe
from mlml.model.predict import as_features, predict
from mlml.runtime.device import seed_everything
from mlml.training import batches, experiment
from mlml.training.history import Epoch
from mlml.training.recipe import Recipe, Run
from tests.training.test_loop import L, N, data, recipe

SEED = 3


def train(plan: Recipe, method: str = "an", **more: object) -> experiment.Trained:
    options = {"start_epoch": 0} if method == "pseudo_label" else {}
    return experiment.train(*data(), plan, Run(method=method, options=options, seed=SEED, device="cpu"), **more)


def initial() -> Classifier:
    seed_everything(SEED)
    return Classifier("test_resnet", L)


def test_it_is_adam_on_the_features_of_the_untrained_backbone() -> None:
    """By hand: the linear layer in float64, the same order of the images."""
    trained = train(recipe(linear_probe=True, flip=True, epochs=1, precision="float32")).classifier
    model, (given, _) = initial(), data()
    inputs, labels = as_features(model, given).images.double(), torch.from_numpy(given.labels)
    head = model.head.double()
    optimizer = torch.optim.Adam(head.parameters(), 1e-3)
    for step in batches.draw(N, 8, False, torch.Generator().manual_seed(SEED), torch.device("cpu")):
        optimizer.zero_grad()
        bce(head(inputs[step.index]), labels[step.index]).mean().backward()
        optimizer.step()
    torch.testing.assert_close(trained.head.weight.double(), head.weight, rtol=1e-4, atol=1e-6)
    before = initial().state_dict()
    changed = {key for key, value in trained.state_dict().items() if not torch.equal(value, before[key])}
    assert changed == {"head.weight", "head.bias"}


def test_the_backbone_sees_each_image_once(featured: list[tuple[torch.Tensor, bool]]) -> None:
    for inputs in ("disk", "device"):  # features need no images that wait on the device
        featured.clear()
        train(recipe(linear_probe=True, epochs=3, inputs=inputs))
        seen = [(len(images), training) for images, training in featured]
        assert seen == [(1, False), (N, False), (N, False)]  # the first sees whether the size is possible


def test_the_classifier_scores_as_the_probe_did() -> None:
    trained = train(recipe(linear_probe=True, epochs=4, lr=0.01), "pseudo_label")
    model, (_, validation) = trained.classifier, data()
    logits = predict(model, validation)
    np.testing.assert_allclose(
        predict(LinearProbe(model), as_features(model, validation)), logits, rtol=1e-5, atol=1e-6
    )
    assert trained.hardware.inputs == "disk" and trained.hardware.compile == "none"


@pytest.mark.parametrize("method", ["pseudo_label", "role"])
def test_it_goes_on_as_if_nothing_had_been(method: str, tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stop(epoch: Epoch) -> None:
        if epoch.epoch == 3:
            raise Stop

    plan = recipe(linear_probe=True, epochs=4)
    whole = train(plan, method)
    kept = Checkpoint(tmp_path, "key")
    with pytest.raises(Stop):
        train(plan, method, checkpoint=kept, on_epoch=stop)
    kept.wait()
    cut = train(plan, method, checkpoint=Checkpoint(tmp_path, "key"))
    assert cut.best == whole.best
    for name, value in whole.classifier.state_dict().items():
        assert torch.equal(value, cut.classifier.state_dict()[name]), name


def test_it_cannot_follow_a_linear_start() -> None:
    with pytest.raises(ValueError, match=r"linear_probe[\s\S]*must be false after linear_init"):
        recipe(linear_probe=True, linear_init=1)


@pytest.mark.parametrize("name", methods.names())
def test_every_method(name: str) -> None:
    trained, before = train(recipe(linear_probe=True, epochs=2), name), initial().state_dict()
    changed = {key for key, value in trained.classifier.state_dict().items() if not torch.equal(value, before[key])}
    assert changed == {"head.weight", "head.bias"}
    assert all(value.isfinite().all() for value in trained.classifier.state_dict().values())


def test_batches_of_one_image() -> None:
    """A linear layer takes them; batch normalisation of one pixel does not, which is said before anything begins."""
    with pytest.raises(ValueError, match=r"train\.batch_size: with it a batch has one image, on which 'test_resnet'"):
        train(recipe(batch_size=1))
    assert train(recipe(linear_probe=True, batch_size=1, epochs=1)).best.epoch == 1
