"""What holds for every method, found by its name."""

import ast
import inspect

import numpy as np
import pytest
import torch
import yaml

from mlml import methods
from mlml.methods import Batch, TrainLabels
from tests.test_architecture import ROOT

SETTINGS = {
    "fol": np.array([[1, -1, -1], [-1, 1, -1], [-1, -1, -1], [1, 1, -1]], np.int8),
    "pol": np.array([[0, -1, 0], [0, 1, 0], [0, 0, 0], [1, 0, -1]], np.int8),
    "ppl": np.array([[1, 0, 0], [0, 1, 0], [0, 0, 0], [1, 1, 0]], np.int8),
}

every_method = pytest.mark.parametrize("name", methods.names())
every_setting = pytest.mark.parametrize("observed", SETTINGS.values(), ids=SETTINGS)


def build(name: str, observed: np.ndarray) -> methods.Method:
    torch.manual_seed(0)
    return methods.build(name, TrainLabels(torch.from_numpy(observed), 1.5))


def batch(observed: np.ndarray, rows: list[int]) -> Batch:
    return Batch(torch.from_numpy(observed[rows]), torch.tensor(rows))


def logits(n: int) -> torch.Tensor:
    return torch.randn(n, 3, generator=torch.Generator().manual_seed(1))


def test_names() -> None:
    assert {"an", "bce", "pseudo_label"} <= set(methods.names())
    assert "base" not in methods.names()


@every_method
@every_setting
def test_loss_is_a_finite_scalar_with_a_gradient(name: str, observed: np.ndarray) -> None:
    for rows in ([0, 1, 2, 3], [2], [3, 1]):
        x = logits(len(rows)).requires_grad_()
        loss = build(name, observed)(x, batch(observed, rows), 1)
        assert loss.shape == ()
        assert loss.dtype == torch.float32
        assert loss.isfinite()
        loss.backward()
        assert x.grad is not None
        assert x.grad.isfinite().all()


@every_method
@every_setting
def test_order_in_the_batch_does_not_matter(name: str, observed: np.ndarray) -> None:
    method, x = build(name, observed), logits(4)
    rows = [0, 1, 2, 3]
    mixed = [2, 0, 3, 1]
    there = method(x[mixed], batch(observed, mixed), 4)
    torch.testing.assert_close(method(x, batch(observed, rows), 4), there)


@every_method
@every_setting
def test_state_round_trips(name: str, observed: np.ndarray) -> None:
    method, other = build(name, observed), build(name, observed)
    predictions = torch.rand(4, 3, generator=torch.Generator().manual_seed(2))
    for epoch in range(1, 6):
        method.end_epoch(epoch, predictions if method.wants_predictions else None)
    other.load_state_dict(method.state_dict())
    everything = batch(observed, [0, 1, 2, 3])
    assert torch.equal(method(logits(4), everything, 6), other(logits(4), everything, 6))


@every_method
def test_pseudo_labels_keep_observed_labels(name: str) -> None:
    observed = SETTINGS["pol"]
    method = build(name, observed)
    for epoch in range(1, 8):
        predictions = torch.rand(4, 3, generator=torch.Generator().manual_seed(epoch))
        method.end_epoch(epoch, predictions if method.wants_predictions else None)
        pseudo = method.pseudo_labels(torch.tensor([3, 0]))
        if pseudo is not None:
            assert pseudo.shape == (2, 3)
            assert ((pseudo >= 0) & (pseudo <= 1)).all()
            seen = torch.from_numpy(observed[[3, 0]])
            assert torch.equal(pseudo[seen != 0], (seen[seen != 0] == 1).float())


@every_method
def test_params_file_lists_the_options_with_their_defaults(name: str) -> None:
    given = yaml.safe_load((ROOT / "params.yaml").read_text())["methods"][name]
    module = ast.parse((ROOT / f"mlml/methods/{name}.py").read_text())
    assert ast.get_docstring(module)
    make = __import__(f"mlml.methods.{name}", fromlist=["method"]).method
    defaults = {
        option: parameter.default
        for option, parameter in inspect.signature(make).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    assert given == defaults


def test_unknown_method_and_option() -> None:
    train = TrainLabels(torch.tensor([[1, 0]], dtype=torch.int8))
    with pytest.raises(ValueError, match="method: 'nan' is not allowed; it must be one of an, bce, pseudo_label"):
        methods.build("nan", train)
    with pytest.raises(ValueError, match=r"methods\.an\.lr: unknown key; it takes none"):
        methods.build("an", train, {"lr": 1})
    with pytest.raises(ValueError, match=r"methods\.pseudo_label\.alpha: -1 is not allowed; must be greater than or"):
        methods.build("pseudo_label", train, {"alpha": -1})


def test_an_is_bce_with_unknown_as_absent() -> None:
    observed, x = SETTINGS["pol"], logits(4).double()
    p = 1 / (1 + np.exp(-x.numpy()))
    expected = -np.where(observed == 1, np.log(p), np.log(1 - p)).mean()
    assert build("an", observed)(x, batch(observed, [0, 1, 2, 3]), 1).item() == pytest.approx(expected, rel=1e-12)


def test_bce_is_the_mean_over_images_of_the_mean_over_observed_labels() -> None:
    observed, x = SETTINGS["pol"], logits(4).double()
    p = 1 / (1 + np.exp(-x.numpy()))
    per_label = -np.where(observed == 1, np.log(p), np.log(1 - p))
    per_image = [row[seen].mean() if seen.any() else 0 for row, seen in zip(per_label, observed != 0, strict=True)]
    result = build("bce", observed)(x, batch(observed, [0, 1, 2, 3]), 1)
    assert result.item() == pytest.approx(np.mean(per_image), rel=1e-12)


@pytest.mark.parametrize("name", ["an", "bce"])
def test_gradcheck(name: str) -> None:
    observed = SETTINGS["pol"]
    method, x = build(name, observed), logits(4).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda y: method(y, batch(observed, [0, 1, 2, 3]), 1), x)


@every_method
@pytest.mark.parametrize("size", [1e4, -1e4])
def test_extreme_logits(name: str, size: float) -> None:
    observed = SETTINGS["pol"]
    x = torch.full((4, 3), size, requires_grad=True)
    loss = build(name, observed)(x, batch(observed, [0, 1, 2, 3]), 2)
    loss.backward()
    assert loss.isfinite()
    assert x.grad is not None
    assert x.grad.isfinite().all()
