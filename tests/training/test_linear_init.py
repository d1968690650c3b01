"""The linear layer alone on the frozen backbone's features, on a few tiny images."""

import numpy as np
import pytest
import torch
from torch import Tensor

from mlml.methods import Method
from mlml.model.classifier import Classifier
from mlml.model.predict import as_features
from mlml.runtime.device import seed_everything
from mlml.training import loop
from mlml.training.recipe import Recipe
from tests.training.test_loop import L, N, Spy, build, data, recipe


def start(method: Method, plan: Recipe, seed: int = 0) -> tuple[Classifier, dict[str, Tensor]]:
    """The model after its linear start, and its state before it."""
    seed_everything(seed)
    model = Classifier(plan.backbone, L)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    train, validation = data()
    order = torch.Generator().manual_seed(seed)
    loop.train_head(model, method, train, validation, plan, torch.from_numpy(train.labels), order)
    return model, before


def test_only_the_head_changes() -> None:
    model, before = start(build("bce"), recipe(linear_init=2))
    changed = {key for key, value in model.state_dict().items() if not torch.equal(value, before[key])}
    assert changed == {"head.weight", "head.bias"}


def test_features_are_those_of_the_evaluation_mode_computed_once(
    featured: list[tuple[Tensor, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlml.model.predict.BATCH_SIZE", 10)
    start(build("bce"), recipe(linear_init=3, flip=True))
    assert [(len(images), training) for images, training in featured] == [(n, False) for n in (10, 10, 10, 7) * 2]


def test_features_lead_to_the_models_logits() -> None:
    model, (train, _) = Classifier("test_resnet", L), data()
    features = as_features(model, train).images
    assert not features.requires_grad
    images = torch.from_numpy(next(train.images.stream([train.rows])))
    torch.testing.assert_close(model.head(features), model.eval()(images), rtol=1e-4, atol=1e-5)


def test_what_the_method_is_given() -> None:
    spy = Spy()
    start(spy, recipe(linear_init=3))
    assert {epoch for epoch, _, _ in spy.batches} == {1}
    assert spy.ends == []
    index = torch.cat([batch.index for _, batch, _ in spy.batches])
    assert sorted(index.tolist()) == sorted([*range(N)] * 3)
    assert index[:N].tolist() != index[N : 2 * N].tolist()
    observed = torch.cat([batch.observed for _, batch, _ in spy.batches])
    assert torch.equal(observed, torch.from_numpy(data()[0].labels)[index])


def test_it_learns_on_the_frozen_features(capsys: pytest.CaptureFixture[str]) -> None:
    start(build("bce"), recipe(linear_init=30, lr=1e-2))
    losses = [float(line.split()[4]) for line in capsys.readouterr().err.splitlines() if "loss" in line]
    assert len(losses) == 30
    assert losses[-1] < 0.8 * losses[0]


def test_a_methods_own_parameters_are_trained_too() -> None:
    method = build("role", partial=True)
    before = method.g.detach().clone()
    start(method, recipe(linear_init=1))
    assert (method.g != before).all()


@pytest.mark.parametrize("name", ["an", "role"])
def test_the_best_epoch_is_kept(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The head and the method's own numbers, of which some have not been read for a while."""

    def after(epochs: int, scores: list[float]) -> list[Tensor]:
        monkeypatch.setattr("mlml.training.loop.validate", lambda *arguments: {"validation_mAP": scores.pop(0)})
        method = build(name, partial=True)
        model, _ = start(method, recipe(linear_init=epochs))
        pseudo = method.pseudo_labels(torch.arange(N))
        return [*model.head.state_dict().values(), *([] if pseudo is None else [pseudo])]

    found = after(5, [1.0, 2.0, 4.0, 3.0, 4.0])
    for one, expected in zip(found, after(3, [1.0, 2.0, 4.0]), strict=True):
        assert torch.equal(one, expected)
    assert not torch.equal(found[0], after(5, [1.0, 2.0, 3.0, 4.0, 5.0])[0])


def test_a_loss_that_is_not_finite_stops_with_its_place() -> None:
    with pytest.raises(FloatingPointError, match="linear init 2/3, step 3: the loss of method spy is nan; a lower"):
        start(Spy([1.0] * 7 + [float("nan")]), recipe(linear_init=3))  # 5 steps an epoch


def test_fit_starts_from_it() -> None:
    def fit(**changes: object) -> tuple[np.ndarray, list[tuple[int, int]]]:
        spy, (train, validation), plan = Spy(), data(), recipe(epochs=1, **changes)
        seed_everything(0)
        model = Classifier(plan.backbone, L)
        loop.fit(model, spy, train, validation, plan, 0)
        return model.head.weight.detach().numpy(), [len(batch.index) for _, batch, _ in spy.batches]

    plain, steps = fit()
    started, more = fit(linear_init=4)
    assert len(steps) == 5
    assert len(more) == 25
    # Adam moves a weight by at most about its rate in a step.
    assert np.abs(plain - started).max() > 5 * 1e-3
