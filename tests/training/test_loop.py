"""The loop, on a few tiny images."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score
from torch import Tensor

from mlml import methods
from mlml.images.store import RowImages
from mlml.methods import Batch, Method, TrainLabels
from mlml.metrics import mean_average_precision
from mlml.model.classifier import Classifier
from mlml.model.loader import Examples
from mlml.model.predict import predict
from mlml.runtime.device import seed_everything
from mlml.training import experiment, loop
from mlml.training.history import Epoch
from mlml.training.recipe import Recipe, Run
from mlml.training.trajectories import Recorder

N, L = 37, 3


def data() -> tuple[Examples, Examples]:
    """Training and validation images whose classes are the brightness of the colour channels."""
    random = np.random.RandomState(0)
    labels = np.where(random.rand(2 * N, L) < 0.4, 1, -1).astype(np.int8)
    images = random.randint(0, 80, (2 * N, 32, 32, 3), np.uint8)
    images += (labels[:, None, None] == 1).astype(np.uint8) * 150
    prepared = RowImages(images)
    rows = np.arange(2 * N)
    return Examples(prepared, rows[:N], labels[:N]), Examples(prepared, rows[N:], labels[N:])


def hidden(labels: np.ndarray) -> np.ndarray:
    """Labels of which 40 percent are unknown."""
    return np.where(np.random.RandomState(1).rand(*labels.shape) < 0.4, 0, labels).astype(np.int8)


def recipe(**changes: object) -> Recipe:
    values = {"backbone": "test_resnet", "weights": "none", "lr": 1e-3, "batch_size": 8, "epochs": 2, "flip": False}
    return Recipe.model_validate({**values, **changes})


def run(
    method: Method, plan: Recipe, seed: int = 0, observed: np.ndarray | None = None
) -> tuple[Classifier, Epoch, list]:
    """Train; `observed` replaces the labels of the training images."""
    seed_everything(seed)
    train, validation = data()
    model, history = Classifier(plan.backbone, L), []
    train = train if observed is None else train._replace(labels=observed)
    best = loop.fit(model, method, train, validation, plan, seed, None, history.append)
    return model, best, history


def build(name: str, partial: bool = False, **options: object) -> Method:
    labels = torch.from_numpy(data()[0].labels.copy())
    if partial:
        labels[:, 0] = 0
    return methods.build(name, TrainLabels(labels, 1.2, 2), options)


class Spy(Method):
    """Records what the loop gives a method."""

    wants_predictions = True

    def __init__(self, losses: list[float] | None = None) -> None:
        super().__init__()
        self.name = "spy"
        self.batches: list[tuple[int, Batch, Tensor]] = []
        self.ends: list[tuple[int, Tensor | None]] = []
        self.losses = losses or []

    def forward(self, logits: Tensor, batch: Batch, epoch: int) -> Tensor:
        self.batches.append((epoch, batch, logits.detach()))
        target = (batch.observed == 1).float()
        scale = self.losses[len(self.batches) - 1] if len(self.batches) <= len(self.losses) else 1.0
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, target) * scale

    def end_epoch(self, epoch: int, predictions: Tensor | None) -> None:
        self.ends.append((epoch, None if predictions is None else predictions.clone()))


def test_every_image_once_an_epoch_with_its_own_labels_and_prediction() -> None:
    spy = Spy()
    run(spy, recipe(epochs=3))
    labels = torch.from_numpy(data()[0].labels)
    orders = []
    for epoch in (1, 2, 3):
        seen = [(batch, logits) for e, batch, logits in spy.batches if e == epoch]
        index = torch.cat([batch.index for batch, _ in seen])
        orders.append(index.tolist())
        assert sorted(index.tolist()) == list(range(N))
        assert torch.equal(torch.cat([batch.observed for batch, _ in seen]), labels[index])
        end, predictions = spy.ends[epoch - 1]
        assert end == epoch
        torch.testing.assert_close(predictions[index], torch.cat([logits for _, logits in seen]).sigmoid())
    assert orders[0] != orders[1]


def test_it_learns_and_keeps_the_best_epoch() -> None:
    model, best, history = run(build("bce"), recipe(epochs=6))
    scores = [epoch.validation_mAP for epoch in history]
    assert best == history[int(np.argmax(scores))]
    assert best.validation_mAP > 90
    _, validation = data()
    again = 100 * mean_average_precision(validation.labels == 1, predict(model, validation))
    assert again == best.validation_mAP
    assert [epoch.epoch for epoch in history] == [1, 2, 3, 4, 5, 6]
    assert history[-1].loss < history[0].loss


@pytest.mark.parametrize("name", methods.names())
def test_every_method_learns(name: str) -> None:
    observed, plan = hidden(data()[0].labels), recipe(epochs=4, lr=3e-3)
    seed_everything(0)
    method = methods.build(name, TrainLabels(torch.from_numpy(observed), 1.2, plan.epochs))
    _, _, history = run(method, plan, observed=observed)
    assert history[-1].loss < 0.85 * history[0].loss
    assert history[-1].validation_mAP > 75


def test_same_seed_same_result_other_seed_another() -> None:
    """Initial weights, order, flips and the method's own random numbers: its detector fires in each epoch here."""
    random = {"start_epoch": 0, "d": 0.5}
    runs = (run(build("pseudo_label", partial=True, **random), recipe(flip=True), seed) for seed in (0, 0, 1))
    first, second, other = ((model, history) for model, _, history in runs)
    assert first[1] == second[1]
    assert first[1] != other[1]
    for a, b in zip(first[0].state_dict().values(), second[0].state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_the_mean_loss_is_over_images() -> None:
    spy = Spy()
    _, _, history = run(spy, recipe(epochs=1))
    observed = torch.cat([batch.observed for _, batch, _ in spy.batches])
    logits = torch.cat([logits for _, _, logits in spy.batches]).double()
    expected = torch.nn.functional.binary_cross_entropy_with_logits(logits, (observed == 1).double())
    assert history[0].loss == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_stops_with_its_place(value: float) -> None:
    losses = [1.0] * 5 + [1.0, 1.0, value]  # 5 steps an epoch
    with pytest.raises(FloatingPointError, match=f"epoch 2/2, step 3: the loss of method spy is {value}"):
        run(Spy(losses), recipe())


def test_weights_that_blow_up_stop_with_their_place() -> None:
    """The losses of the epoch were finite, what they led to is not."""
    with pytest.raises(FloatingPointError, match=r"epoch \d.*method bce.*a lower train\.lr often helps"):
        run(build("bce"), recipe(lr=1e30, batch_size=N))


def test_progress_shows_loss_and_map(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, int, dict[str, str]]] = []

    @contextmanager
    def progress(what: str, total: int, unit: str, log: bool, shown: bool) -> Iterator[Callable[..., None]]:
        yield lambda count, **facts: calls.append((what, count, facts))

    monkeypatch.setattr("mlml.training.epoch.progress", progress)
    _, _, history = run(build("bce"), recipe())
    assert sum(count for _, count, _ in calls) == 2 * N
    last = [facts for what, _, facts in calls if what == "epoch 2/2" and facts][-1]
    assert last["best_mAP"] == f"{history[0].validation_mAP:.2f}"
    assert float(last["loss"]) == pytest.approx(history[1].loss, abs=0.05)


def test_a_methods_own_parameters_train_at_their_own_rate() -> None:
    class Own(Spy):
        lr_scale = 10.0

        def __init__(self) -> None:
            super().__init__()
            self.shift = torch.nn.Parameter(torch.zeros(()))

        def forward(self, logits: Tensor, batch: Batch, epoch: int) -> Tensor:
            return super().forward(logits, batch, epoch) + self.shift

    method = Own()
    run(method, recipe(epochs=1, lr=1e-3))
    # Adam moves a parameter with a constant gradient by its rate in each of the 5 steps.
    assert method.shift.item() == pytest.approx(-5 * 10 * 1e-3, rel=1e-3)


@pytest.mark.parametrize("flip", [True, False])
def test_images_are_flipped_where_the_recipe_says_so(featured: list[tuple[Tensor, bool]], flip: bool) -> None:
    """Each image is brighter on its left: the model sees which are flipped."""
    train, validation = data()
    images = np.zeros((2 * N, 32, 32, 3), np.uint8)
    images[:, :, :16] = 200
    train = train._replace(images=RowImages(images))
    loop.fit(Classifier("test_resnet", L), build("bce"), train, validation, recipe(epochs=1, flip=flip), 0)
    corners = torch.cat([batch[:, 0, 0, 0] for batch, training in featured if training]).tolist()
    assert len(corners) == N
    assert set(corners) == ({0, 200} if flip else {200})


def test_unknown_validation_labels_count_in_no_average_precision() -> None:
    train, validation = data()
    model = Classifier("test_resnet", L)
    partial = hidden(validation.labels)
    best = loop.fit(model, build("bce"), train, validation._replace(labels=partial), recipe(epochs=1), 0)
    logits, known = predict(model, validation), partial != 0
    expected = [average_precision_score(partial[known[:, j], j] == 1, logits[known[:, j], j]) for j in range(L)]
    assert best.validation_mAP == pytest.approx(100 * np.mean(expected))


def test_empty_splits_are_refused() -> None:
    """Before anything is computed, by the loop and by a whole run."""
    train, _ = data()
    model, method = Classifier("test_resnet", L), build("bce")
    none = Examples(train.images, train.rows[:0], train.labels[:0])
    with pytest.raises(ValueError, match="37 training and 0 validation images"):
        loop.fit(model, method, train, none, recipe(), 0)
    with pytest.raises(ValueError, match="37 training and 0 validation images"):
        experiment.train(train, none, recipe(linear_probe=True), Run(method="bce", seed=0, device="cpu"))


def test_prediction_does_not_depend_on_the_batch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model, (train, _) = Classifier("test_resnet", L), data()
    whole = predict(model, train)
    assert capsys.readouterr().err == ""
    predict(model, train, "evaluate")
    assert capsys.readouterr().err == f"evaluate: 100% of {N} images\n"
    assert whole.shape == (N, L)
    assert whole.dtype == np.float32
    monkeypatch.setattr("mlml.model.predict.BATCH_SIZE", 5)
    np.testing.assert_allclose(predict(model, train), whole, rtol=1e-4, atol=1e-5)
    some = train._replace(rows=train.rows[[4, 2]])
    np.testing.assert_allclose(predict(model, some), whole[[4, 2]], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "followed", "planes"), [("pseudo_label", N, 3), ("an", 4, 0)])
def test_trajectories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, followed: int, planes: int) -> None:
    """Of all images where there are fewer than are followed; of a method without pseudo labels."""
    if followed < N:
        monkeypatch.setattr("mlml.training.trajectories.IMAGES", followed)
    method = build(name, **({"update_every_epoch": True, "disturbances": False} if planes else {}))
    recorder, random = Recorder(N, L, 5, method, torch.device("cpu")), torch.Generator().manual_seed(0)
    plane, order = torch.rand(N, L, generator=random), torch.randperm(N, generator=random)
    for epoch in (1, 2):
        for index in order.split(20):
            recorder.record(index, plane[index] / epoch)
        method.end_epoch(epoch, plane / epoch)
        recorder.end_epoch(method)
    recorder.save(tmp_path / "t.npz")
    with np.load(tmp_path / "t.npz") as file:
        rows = file["rows"].tolist()
        assert len(rows) == followed and rows == sorted(set(rows))
        np.testing.assert_array_equal(file["predictions"], torch.stack([plane, plane / 2])[:, rows])
        assert file["pseudo_labels"].shape == (planes, followed, L)
