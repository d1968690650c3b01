"""What holds for every method, found by its name, and the protocol's helpers."""

import ast
import inspect
from typing import Annotated

import pytest
import torch
import yaml
from pydantic import Field
from torch import Tensor

from mlml import methods
from mlml.core.params import parse_options
from mlml.methods import Batch, Method, TrainLabels
from mlml.methods.base import stateless
from mlml.methods.shared.pseudo_labels import PseudoLabel
from tests.test_architecture import ROOT

SETTINGS = {
    "fol": [[1, -1, -1], [-1, 1, -1], [-1, -1, -1], [1, 1, -1]],
    "pol": [[0, -1, 0], [0, 1, 0], [0, 0, 0], [1, 0, -1]],  # images without positives, one without labels
    "pol without positives": [[0, -1, 0], [-1, 0, 0]],
    "ppl": [[1, 0, 0], [0, 1, 0], [0, 0, 0], [1, 1, 0]],
    "spl": [[1, 0, 0, 0, 0], [0, 0, 0, 1, 0]],
    "mixed": [[1, -1, -1], [0, 0, 0], [1, 0, 0], [-1, 0, -1], [1, 1, 1]],  # as somebody's own labels may be
    "one class": [[1], [0], [-1], [0]],
    "one image": [[1, 0, -1, 0]],
}
ABLATIONS = [name for name in methods.names() if name.startswith("pseudo_label_")]

every_method = pytest.mark.parametrize("name", methods.names())
every_setting = pytest.mark.parametrize("labels", list(map(torch.tensor, SETTINGS.values())), ids=SETTINGS)


def build(name: str, labels: Tensor, seed: int = 0, **options: object) -> Method:
    torch.manual_seed(seed)
    return methods.build(name, TrainLabels(labels.to(torch.int8), 1.5), options)


def batch(labels: Tensor, rows: list[int] | None = None) -> Batch:
    index = torch.tensor(rows) if rows else torch.arange(len(labels))
    return Batch(labels[index].to(torch.int8), index)


def random_logits(labels: Tensor, seed: int = 1) -> Tensor:
    return 2 * torch.randn(labels.shape, generator=torch.Generator().manual_seed(seed))


def train(method: Method, labels: Tensor, epochs: int) -> None:
    """What a method lives through in so many epochs: batches of two images, steps of its own numbers, ends."""
    for epoch in range(1, epochs + 1):
        x = random_logits(labels, epoch).requires_grad_()
        for rows in torch.arange(len(labels)).split(2):
            method(x[rows], batch(labels, rows.tolist()), epoch).backward()
            with torch.no_grad():
                for parameter in method.parameters():
                    parameter -= 0.5 * parameter.grad
            method.zero_grad()
        method.end_epoch(epoch, x.detach().sigmoid() if method.wants_predictions else None)


def test_names() -> None:
    names = set(methods.names())
    assert {"an", "bce", "bce_ls", "wan", "role", "focal", "asl", "pseudo_label"} <= names  # the paper's
    assert {"ll_r", "ll_ct", "ll_cp", "em_apl", "hill", "splc", "gr", "partial_bce"} <= names
    assert "base" not in names


@every_method
@every_setting
def test_loss_is_a_finite_scalar_with_a_gradient(name: str, labels: Tensor) -> None:
    method = build(name, labels)
    for epoch in range(1, 11):
        for rows in (None, *([row] for row in range(len(labels)))):
            seen = batch(labels, rows)
            x = random_logits(seen.observed, epoch).requires_grad_()
            loss = method(x, seen, epoch)
            assert loss.shape == ()
            assert loss.dtype == torch.float32
            assert loss.isfinite()
            loss.backward()
            assert x.grad.isfinite().all()
            assert rows or x.grad.any()
        method.end_epoch(epoch, random_logits(labels, epoch).sigmoid() if method.wants_predictions else None)


@every_method
@every_setting
def test_extreme_logits(name: str, labels: Tensor) -> None:
    method = build(name, labels)
    signs = torch.ones(labels.shape)
    signs[:, ::2] = -1
    for epoch in range(1, 11):
        for x in (1e4 * signs, -1e4 * signs, 1e4 * signs.abs(), -1e4 * signs.abs()) if epoch in (1, 2, 10) else ():
            x.requires_grad_()
            loss = method(x, batch(labels), epoch)
            loss.backward()
            assert loss.isfinite()
            assert x.grad.isfinite().all()
            assert all(parameter.grad.isfinite().all() for parameter in method.parameters())
        method.end_epoch(epoch, (1e4 * signs).sigmoid() if method.wants_predictions else None)


@every_method
def test_a_wrong_observed_label_has_a_gradient_at_any_logit(name: str) -> None:
    labels = torch.tensor([[1, 0, -1, 0]])
    x = torch.tensor([[-50.0, 0, 50, 0]], requires_grad=True)
    # The margin of asl bounds the loss of a negative, which so is flat where p is 1: a property of the method.
    more = {"margin": 0.0} if name == "asl" else {}
    build(name, labels, **more)(x, batch(labels), 1).backward()
    assert x.grad[0, 0] < -0.1
    assert x.grad[0, 2] > (0.02 if name == "focal" else 0.1)  # which weighs negatives less


@every_method
@every_setting
def test_order_in_the_batch_does_not_matter(name: str, labels: Tensor) -> None:
    mixed = torch.randperm(len(labels), generator=torch.Generator().manual_seed(3)).tolist()
    for before in (0, 6):
        one, other, x = build(name, labels), build(name, labels), random_logits(labels, 0)
        for method in (one, other):
            train(method, labels, before)
        there = other(x[mixed], batch(labels, mixed), before + 1)
        torch.testing.assert_close(one(x, batch(labels), before + 1), there)
        for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True):
            assert torch.equal(a, b)


@every_method
@every_setting
def test_state_round_trips(name: str, labels: Tensor) -> None:
    method, other = build(name, labels), build(name, labels, seed=1)
    train(method, labels, 5)
    other.load_state_dict(method.state_dict())
    for epoch in (6, 7):
        losses, planes = [], []
        for each in (method, other):
            losses.append(each(random_logits(labels, 0), batch(labels), epoch))
            torch.manual_seed(epoch)
            each.end_epoch(epoch, random_logits(labels, epoch).sigmoid() if each.wants_predictions else None)
            planes.append(each.pseudo_labels(torch.arange(len(labels))))
        assert torch.equal(*losses)
        assert planes == [None, None] or torch.equal(*planes)


@every_method
@every_setting
def test_a_batch_leaves_the_state_of_other_images_alone(name: str, labels: Tensor) -> None:
    method = build(name, labels)
    train(method, labels, 5)
    before = {key: value.detach().clone() for key, value in method.state_dict().items()}
    rows = [0, len(labels) - 1] if len(labels) > 2 else [0]  # so that there are others, but for a single image
    others = [row for row in range(len(labels)) if row not in rows]
    method(random_logits(labels[rows], 0).requires_grad_(), batch(labels, rows), 6).backward()
    for key, value in method.state_dict().items():
        if value.shape[-2:] == labels.shape:
            value, before[key] = value[..., others, :], before[key][..., others, :]
        assert torch.equal(value, before[key])
    assert not any(parameter.grad[others].any() for parameter in method.parameters())


@every_method
@every_setting
def test_observed_labels_stay_what_they_are(name: str, labels: Tensor) -> None:
    observed = labels.to(torch.int8)
    given = TrainLabels(observed.clone(), 1.5)
    method = methods.build(name, given)
    seen = batch(labels)
    for epoch in range(1, 11):
        method(random_logits(labels, epoch), seen, epoch)
        method.end_epoch(epoch, random_logits(labels, epoch).sigmoid() if method.wants_predictions else None)
        pseudo = method.pseudo_labels(seen.index)
        if pseudo is not None:
            assert pseudo.shape == labels.shape
            assert pseudo.dtype == torch.float32
            assert ((pseudo >= 0) & (pseudo <= 1)).all()
            assert torch.equal(pseudo[labels != 0], (labels[labels != 0] == 1).float())
    assert torch.equal(given.observed, observed)
    assert torch.equal(seen.observed, observed)


@every_method
@every_setting
def test_float64(name: str, labels: Tensor) -> None:
    single, double, x = build(name, labels), build(name, labels).double(), random_logits(labels)
    loss = double(x.double(), batch(labels), 3)
    assert loss.dtype == torch.float64
    torch.testing.assert_close(loss.float(), single(x, batch(labels), 3))


# Some terms of role and gr take the prediction as a constant: their tests compare the gradient with the formula.
@pytest.mark.parametrize("name", sorted(set(methods.names()) - {"role", "gr"}))
@pytest.mark.parametrize("before", [0, 6])
@every_setting
def test_gradcheck(name: str, before: int, labels: Tensor) -> None:
    """At the start, and when pseudo labels and soft negatives have been chosen."""

    def loss(x: Tensor) -> Tensor:
        method = build(name, labels)  # anew, as some change their state in a step
        train(method, labels, before)
        return method.double()(x, batch(labels), before + 1)

    x = random_logits(labels).double().requires_grad_()
    assert torch.autograd.gradcheck(loss, x, fast_mode=True)


def options(name: str) -> dict[str, object]:
    """A method's options with their defaults."""
    make = __import__(f"mlml.methods.{name}", fromlist=["method"]).method
    return {
        option: parameter.default
        for option, parameter in inspect.signature(make).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and option not in getattr(make, "keywords", {})
    }


@every_method
def test_params_file_lists_the_options_with_their_defaults(name: str) -> None:
    given = yaml.safe_load((ROOT / "params.yaml").read_text())["methods"]
    assert ast.get_docstring(ast.parse((ROOT / f"mlml/methods/{name}.py").read_text()))
    if name in ABLATIONS:
        assert given[name] == {}
        assert options(name).items() < given["pseudo_label"].items()
    else:
        assert given[name] == options(name)


def test_params_file_lists_the_methods_there_are() -> None:
    assert sorted(yaml.safe_load((ROOT / "params.yaml").read_text())["methods"]) == methods.names()


@pytest.mark.parametrize("name", ["bce", "bce_ls", "partial_bce"])
def test_what_learns_of_observed_labels_alone_says_that_none_is_absent(name: str) -> None:
    (note,) = build(name, torch.tensor(SETTINGS["spl"])).notes
    assert note == "no label is observed to be absent: it learns that all are present"
    assert build(name, torch.tensor(SETTINGS["pol"])).notes == ()


@pytest.mark.parametrize(
    ("name", "epochs", "note"),
    [
        ("pseudo_label", 4, "no pseudo label is updated: it would be after epoch 4 of 4"),
        ("em_apl", 5, "no soft negatives: they would be chosen after epoch 5 of 5"),
    ],
)
def test_a_schedule_that_the_run_is_too_short_for_is_said(name: str, epochs: int, note: str) -> None:
    labels = torch.tensor(SETTINGS["pol"], dtype=torch.int8)
    for more, said in ((0, True), (1, False)):
        assert (note in methods.build(name, TrainLabels(labels, 1.5, epochs + more)).notes) == said


@pytest.mark.parametrize("sampled", [True, False])
def test_how_the_labels_were_observed_counts_more_than_what_they_look_like(sampled: bool) -> None:
    """Of four classes of which half are present, a share under `pol` has more positives or more negatives by chance."""
    few, many = torch.tensor([[1, 0, 0], [-1, 0, 0]]), torch.tensor([[1, 0, 0], [1, -1, 0]])
    for labels in (few, many):
        train = TrainLabels(labels.to(torch.int8), 1.5, sampled=sampled)
        assert train.all_sampled() == sampled
        assert (train.estimated_positives() is not None) == sampled
        method = methods.build("pseudo_label", train)
        assert isinstance(method, PseudoLabel)
        assert method.weighted == sampled
        assert method.notes[0].endswith("weights of eq. fina" if sampled else "observed and unknown labels weigh alike")
    assert [TrainLabels(labels).all_sampled() for labels in (few, many)] == [True, False]


def test_unknown_method_and_option() -> None:
    given = TrainLabels(torch.tensor([[1, 0]], dtype=torch.int8))
    with pytest.raises(
        ValueError, match="method: 'nan' is not allowed; it must be one of an, asl, bce, bce_ls, em_apl"
    ):
        methods.build("nan", given)
    with pytest.raises(ValueError, match=r"methods\.an\.lr: unknown key; it takes none"):
        methods.build("an", given, {"lr": 1})
    with pytest.raises(ValueError, match=r"methods\.pseudo_label\.alpha: -1 is not allowed; must be greater than or"):
        methods.build("pseudo_label", given, {"alpha": -1})
    with pytest.raises(ValueError, match=r"methods\.asl\.margin: 1 is not allowed; must be less than 1"):
        methods.build("asl", given, {"margin": 1})
    with pytest.raises(ValueError, match=r"update: unknown key; it takes alpha, "):  # which its partial fixes
        methods.build("pseudo_label_no_update", given, {"update": True})


def test_a_stateless_loss_is_given_what_it_asks_for() -> None:
    def loss(logits: Tensor, observed: Tensor, epoch: int, *, scale: Annotated[float, Field(gt=0)] = 2.0) -> Tensor:
        return logits.sum() * scale * epoch

    def plain(logits: Tensor, observed: Tensor) -> Tensor:
        return logits.sum()

    make, given = stateless(loss), TrainLabels(torch.tensor([[1, 0]], dtype=torch.int8))
    one = Batch(given.observed, torch.tensor([0]))
    assert make(given)(torch.ones(1, 2), one, 3).item() == 12
    assert make(given, scale=3.0)(torch.ones(1, 2), one, 1).item() == 6
    assert stateless(plain)(given)(torch.ones(1, 2), one, 3).item() == 2
    assert parse_options(make, {"scale": 5}, "") == {"scale": 5.0}
    with pytest.raises(ValueError, match="scale: 0 is not allowed; must be greater than 0"):
        parse_options(make, {"scale": 0}, "")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("pseudo_label_no_update", {"update": False}),
        ("pseudo_label_no_disturbances", {"disturbances": False}),
        ("pseudo_label_no_imbalance", {"imbalance": False}),
        ("pseudo_label_unweighted", {"weighted": False}),
    ],
)
def test_an_ablation_is_pseudo_label_with_one_change(name: str, change: dict[str, object]) -> None:
    assert name in ABLATIONS
    labels = torch.tensor(SETTINGS["pol"])
    more: dict[str, object] = {"alpha": 0.7, "d": 0.4}
    ablation = build(name, labels, **more)
    same, full = build("pseudo_label", labels, **change, **more), build("pseudo_label", labels, **more)
    assert isinstance(ablation, PseudoLabel)
    assert ablation.name == name
    losses = []
    for method in (ablation, same, full):
        torch.manual_seed(2)
        train(method, labels, 6)
        losses.append(method(random_logits(labels), batch(labels), 7))
    assert torch.equal(losses[0], losses[1])
    assert not torch.equal(losses[0], losses[2])


def test_estimated_positives() -> None:
    def estimate(labels: list[list[int]]) -> float | None:
        return TrainLabels(torch.tensor(labels, dtype=torch.int8)).estimated_positives()

    assert estimate(SETTINGS["fol"]) == 1  # 4 positives, 4 images
    assert estimate([[1, 0, 0, 0, -1, 0], [1, -1, -1, -1, 0, 0]]) == pytest.approx(2)  # P_p = 1, m = 1/2
    assert estimate(SETTINGS["pol without positives"]) == 0
    assert estimate(SETTINGS["spl"]) is None
    assert estimate([[1, 0, 0], [1, -1, 0]]) is None  # a negative that somebody noted makes no sample of all labels
    assert estimate([[1, 1, -1], [1, 1, -1]]) == 2  # all are known: dense labels
