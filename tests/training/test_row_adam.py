"""Rows that are moved when they are read, against torch's Adam, which moves all of them in every step."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from mlml import methods
from mlml.methods import TrainLabels, an
from mlml.methods.shared.row_parameter import RowParameter
from mlml.model.classifier import Classifier
from mlml.runtime.device import seed_everything
from mlml.training import loop
from mlml.training.optimizer import Optimizer
from mlml.training.row_adam import RowAdam
from tests.training.test_loop import data, recipe

N, L, LR = 7, 3, 0.03


class EveryStep:
    """In place of `RowAdam`: all rows in every step, by torch's own."""

    def __init__(self, rows: RowParameter, lr: float) -> None:
        self.rows = rows
        self.parameter = nn.Parameter(rows.weight)
        self.adam = torch.optim.Adam([self.parameter], lr=lr)

    def step(self) -> None:
        assert self.rows.taken is not None
        index, rows = self.rows.taken
        self.parameter.grad = torch.zeros_like(self.parameter)
        self.parameter.grad[index] = rows.grad
        self.adam.step()


def batches(seed: int, steps: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows, some of which are never among them and some not for long, and their gradients, some of them tiny."""
    random = np.random.RandomState(seed)
    for step in range(steps):
        among = 2 if step // 150 % 2 else N - 1
        index = random.permutation(among)[: random.randint(1, among + 1)]
        gradient = random.randn(len(index), L) * 10.0 ** random.randint(-9, 3, (len(index), 1))
        yield torch.from_numpy(index), torch.from_numpy(gradient)


def start(seed: int) -> Tensor:
    return torch.randn(N, L, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def adam(weight: Tensor, steps: Iterator[tuple[Tensor, Tensor]]) -> Tensor:
    """All rows after torch's Adam, their gradients 0 but for those of a batch."""
    parameter = nn.Parameter(weight.clone())
    optimizer = torch.optim.Adam([parameter], lr=LR)
    for index, gradient in steps:
        parameter.grad = torch.zeros_like(parameter)
        parameter.grad[index] = gradient
        optimizer.step()
    return parameter.detach()


def learn(rows: RowParameter, optimizer: RowAdam, steps: Iterator[tuple[Tensor, Tensor]]) -> None:
    for index, gradient in steps:
        (rows(index) * gradient.to(rows.weight)).sum().backward()
        optimizer.step()


def read(rows: RowParameter) -> Tensor:
    with torch.no_grad():
        return rows(torch.arange(len(rows.weight)))


@given(st.integers(0, 2**31), st.sampled_from([0, 1, 2, 30, 400]))
def test_rows_move_as_by_torchs_adam(seed: int, steps: int) -> None:
    rows = RowParameter(start(seed))
    learn(rows, RowAdam(rows, LR), batches(seed, steps))
    torch.testing.assert_close(read(rows), adam(start(seed), batches(seed, steps)), rtol=1e-6, atol=1e-6 * LR)


def test_in_single_precision() -> None:
    rows = RowParameter(start(0).float())
    learn(rows, RowAdam(rows, LR), batches(0, 300))
    assert rows.weight.dtype == torch.float32
    torch.testing.assert_close(read(rows).double(), adam(start(0), batches(0, 300)), rtol=1e-4, atol=1e-4)


def test_more_than_is_computed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlml.training.row_adam.ROWS", 2)
    monkeypatch.setattr("mlml.training.row_adam.MOST", 20)
    rows = RowParameter(start(0))
    learn(rows, RowAdam(rows, LR), batches(0, 50))
    torch.testing.assert_close(read(rows), adam(start(0), batches(0, 50)), rtol=1e-6, atol=1e-8)


def test_a_step_moves_no_row_but_those_of_its_batch() -> None:
    rows = RowParameter(start(0))
    learn(rows, RowAdam(rows, LR), iter([(torch.tensor([1, 4]), torch.ones(2, L))] * 2))
    moved = (rows.weight != start(0)).any(1)
    assert moved.tolist() == [row in (1, 4) for row in range(N)]


def test_reading_without_gradients_is_no_step() -> None:
    rows = RowParameter(start(0))
    optimizer = RowAdam(rows, LR)
    assert torch.equal(read(rows), start(0))
    optimizer.step()
    rows(torch.tensor([0]))  # a loss that was not differentiated
    optimizer.step()
    assert optimizer.steps == 0
    assert torch.equal(read(rows), start(0))


def test_the_state_goes_on_to_the_bit() -> None:
    steps = [*batches(5, 80)]
    whole = RowParameter(start(5))
    learn(whole, RowAdam(whole, LR), iter(steps))
    first, second = RowParameter(start(5)), RowParameter(start(6))
    one, other = RowAdam(first, LR), RowAdam(second, LR)
    learn(first, one, iter(steps[:40]))
    second.load_state_dict(first.state_dict())
    other.load_state_dict(one.state_dict())
    learn(second, other, iter(steps[40:]))
    assert torch.equal(read(second), read(whole))


def test_a_new_optimizer_starts_when_the_moves_of_the_old_one_are_made() -> None:
    rows = RowParameter(start(1))
    learn(rows, RowAdam(rows, LR), batches(1, 20))
    after = adam(start(1), batches(1, 20))
    RowAdam(rows, LR)
    torch.testing.assert_close(rows.weight, after, rtol=1e-6, atol=1e-8)
    assert torch.equal(read(rows), rows.weight)


def test_they_train_at_the_methods_own_rate() -> None:
    """The first step of Adam is as long as its rate."""
    labels, layer = torch.zeros(N, L, dtype=torch.int8), nn.Linear(1, 1)
    method = an.method(TrainLabels(labels))
    method.lr_scale, method.own = 10.0, RowParameter(start(0))
    optimizer = Optimizer(layer.parameters(), method, LR)
    before = layer.weight.item()
    (layer(torch.ones(1, 1)).sum() + method.own(torch.tensor([2])).sum()).backward()
    optimizer.step()
    assert before - layer.weight.item() == pytest.approx(LR, rel=1e-4)
    torch.testing.assert_close(start(0)[2] - method.own.weight[2], torch.full((L,), 10 * LR).double())


@pytest.mark.parametrize("linear_init", [0, 2])
def test_role_is_trained_as_by_moving_all_rows_in_every_step(linear_init: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def trained() -> Tensor:
        seed_everything(0)
        (train, validation), plan = data(), recipe(epochs=3, linear_init=linear_init)
        observed = np.where(np.random.RandomState(1).rand(*train.labels.shape) < 0.5, 0, train.labels).astype(np.int8)
        method = methods.build("role", TrainLabels(torch.from_numpy(observed), 1.2), {})
        model = Classifier(plan.backbone, observed.shape[1])
        loop.fit(model, method, train._replace(labels=observed), validation, plan, 0)
        everything = method.pseudo_labels(torch.arange(len(observed)))
        assert everything is not None
        return everything.detach()

    found = trained()
    monkeypatch.setattr("mlml.training.optimizer.RowAdam", EveryStep)
    torch.testing.assert_close(found, trained(), rtol=0, atol=1e-4)
