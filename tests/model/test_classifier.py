import errno
import json
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import timm
import torch

from mlml.model.classifier import Classifier, check_size
from mlml.model.weights import load, load_backbone, save

NAME = "test_resnet"
ENGINE = {"precision": "float32", "compile": "none", "inputs": "disk", "device": "cpu", "processes": 1}
ABOUT: dict[str, Any] = {
    "classes": ["a", "b", "ü"], "image_size": 32, "upright": True, "method": "an", "epoch": 4, "validation_mAP": 50.0,
    "engine": ENGINE,
}  # fmt: skip


def images(n: int = 2) -> torch.Tensor:
    return torch.from_numpy(np.random.RandomState(0).randint(0, 256, (n, 32, 32, 3), np.uint8))


def test_logits_equal_timm_fed_the_usual_way() -> None:
    """ToTensor, Normalize and an NCHW model with its own classification layer."""
    model = Classifier(NAME, 4).eval()
    peer = timm.create_model(NAME, num_classes=4).eval()
    peer.load_state_dict({**model.backbone.state_dict(), "fc.weight": model.head.weight, "fc.bias": model.head.bias})
    inputs = (images().permute(0, 3, 1, 2).float().contiguous() / 255 - 0.5) / 0.5
    logits = model(images())
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits, peer(inputs), rtol=1e-4, atol=1e-5)


def test_normalisation_is_the_backbones_own() -> None:
    assert Classifier("resnet10t", 2).mean.flatten().tolist() == pytest.approx([0.485 * 255, 0.456 * 255, 0.406 * 255])
    assert Classifier(NAME, 2).mean.flatten().tolist() == pytest.approx([127.5] * 3)


def test_unknown_backbone() -> None:
    with pytest.raises(ValueError, match=r"train\.backbone: 'test_resnt' is not allowed; .*close: .*test_resnet"):
        Classifier("test_resnt", 2)
    with pytest.raises(ValueError, match=r"train\.backbone: 'resnet10t\.no_tag' is not allowed; timm .* has no such"):
        Classifier("resnet10t.no_tag", 2)


@pytest.mark.parametrize(
    "name",
    ["hf-hub:x/y", "hf_hub:x/y", "local-dir:.", "local_dir:/tmp", "timm:x", "https://x/y", "../../x", ".", "", "*"],
)
def test_a_backbone_that_would_be_fetched_or_opened(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def create_model(*_: object, **__: object) -> None:
        raise AssertionError("it is opened")

    monkeypatch.setattr(timm, "create_model", create_model)
    with pytest.raises(ValueError, match=r"train\.backbone: '.*' is not allowed; timm .* has no such model"):
        Classifier(name, 2)


@pytest.mark.parametrize("name", ["resnet10t", "mobilenetv3_small_050", "efficientvit_b0", "vit_tiny_patch16_224"])
def test_backbones_of_several_families(name: str) -> None:
    model = Classifier(name, 3)
    if name.startswith("vit"):
        with pytest.raises(
            ValueError, match=r"train\.backbone: 'vit.*' does not take 64 x 64 images .*prepare\.image_size"
        ):
            check_size(model, 64)
    else:
        check_size(model, 64)
        assert model.training
        assert model.eval()(images()).shape == (2, 3)


def test_a_batch_of_one_image_that_cannot_be_normalised_is_said_before_training() -> None:
    model = Classifier("resnet10t", 3)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with pytest.raises(
        ValueError,
        match=r"train\.batch_size: with it a batch has one image, on which 'resnet10t' cannot be trained at 32",
    ):
        check_size(model, 32, alone=True)
    check_size(model, 32)
    check_size(model, 64, alone=True)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
def test_weights_from_a_file(tmp_path: Path, suffix: str) -> None:
    state = timm.create_model(NAME, num_classes=7).state_dict()  # as published: with a layer for other classes
    path = tmp_path / f"weights{suffix}"
    if suffix == ".pth":
        torch.save({"state_dict": state}, path)
    else:
        safetensors.torch.save_file(state, path)
    model = Classifier(NAME, 2)
    load_backbone(model, str(path))
    for key, value in model.backbone.state_dict().items():
        assert torch.equal(value, state[key])


def test_no_weights_leaves_the_backbone_alone() -> None:
    model = Classifier(NAME, 2)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    load_backbone(model, "none")
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_weights_that_do_not_fit(tmp_path: Path) -> None:
    other, text, code = tmp_path / "other.pth", tmp_path / "text.pth", tmp_path / "code.pth"
    torch.save({"conv.weight": torch.zeros(1)}, other)
    text.write_text("hello")
    torch.save({"a": Path("x")}, code)  # an object, not a tensor: weights_only refuses it
    for path, message in (
        (other, "does not fit test_resnet"),
        (text, "is no weights file"),
        (code, "holds more than tensors, and is not loaded: it could run any program"),
        (tmp_path / "missing.pth", "must be 'hub', 'none' or a file that exists"),
    ):
        with pytest.raises(ValueError, match=r"train\.weights: ") as caught:
            load_backbone(Classifier(NAME, 2), str(path))
        assert message in str(caught.value)
        assert path.name in str(caught.value)
        assert "\n" not in str(caught.value)


def changed(dtype: torch.dtype | None = None, number: float | None = None) -> dict[str, torch.Tensor]:
    state = timm.create_model(NAME, num_classes=0).state_dict()
    key = next(iter(state))
    state[key] = state[key].to(dtype or torch.float32)
    if number is not None:
        state[key].view(-1)[-1] = number
    return state


WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda path: path.write_bytes(b""), "is empty"),
    "cut zip": (lambda path: path.write_bytes(b"PK\3\4" + bytes(50)), "is no weights file"),
    "cut pickle": (lambda path: path.write_bytes(b"\x80\2"), "is no weights file"),
    "list": (lambda path: torch.save([torch.zeros(1)], path), "holds no state dict"),
    "numbers as keys": (lambda path: torch.save({1: torch.zeros(1)}, path), "holds no state dict"),
    "numbers": (lambda path: torch.save({"a": 1}, path), "holds no state dict"),
    "module": (lambda path: torch.save(torch.nn.Linear(1, 1), path), "holds more than tensors, and is not loaded"),
    "torchscript": (
        lambda path: torch.jit.trace(torch.nn.Linear(1, 1), torch.zeros(1, 1)).save(path),
        "holds more than tensors, and is not loaded",
    ),
    "nan": (
        lambda path: torch.save(changed(number=float("nan")), path),
        ".weight holds values that are not finite",
    ),
    "inf": (lambda path: torch.save(changed(torch.half, float("inf")), path), "holds values that are not finite"),
    "complex": (lambda path: torch.save(changed(torch.complex64), path), "holds torch.complex64, not torch.float32"),
    "int8": (lambda path: torch.save(changed(torch.int8), path), "holds torch.int8, not torch.float32"),
    "sparse": (lambda path: torch.save({"a": torch.eye(3).to_sparse()}, path), "a is no dense tensor"),
    "meta": (lambda path: torch.save({"a": torch.zeros(1, device="meta")}, path), "a is no dense tensor"),
}


@pytest.mark.filterwarnings("ignore")  # of torch.jit
@pytest.mark.parametrize("kind", WRONG)
def test_weights_of_another_form(tmp_path: Path, kind: str) -> None:
    write, fault = WRONG[kind]
    path = tmp_path / "it.pth"
    write(path)
    with pytest.raises(ValueError) as caught:
        load_backbone(Classifier(NAME, 2), str(path))
    message = str(caught.value)
    assert message.startswith(f"train.weights: {path}") and fault in message
    assert "\n" not in message and "weights_only=False" not in message


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16, torch.double])
def test_weights_of_another_precision_are_converted(tmp_path: Path, dtype: torch.dtype) -> None:
    torch.save(OrderedDict(changed(dtype)), tmp_path / "it.pth")
    model = Classifier(NAME, 2)
    load_backbone(model, str(tmp_path / "it.pth"))
    assert {value.dtype for value in model.backbone.parameters()} == {torch.float32}


def test_hub_offline_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ConnectionError, match=r"set train\.weights to the file, or to 'none'") as caught:
        load_backbone(Classifier("test_resnet.r160_in1k", 2), "hub")
    assert "test_resnet.r160_in1k" in str(caught.value)


def test_hub_weights_on_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    model = Classifier(NAME, 2)
    monkeypatch.setattr(timm, "create_model", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        load_backbone(model, "hub")
    assert caught.value.errno == errno.ENOSPC


def test_hub_weights_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    published, model = timm.create_model(NAME, num_classes=0), Classifier(NAME, 2)
    asked = []

    def create_model(name: str, pretrained: bool, num_classes: int) -> torch.nn.Module:
        asked.append((name, pretrained, num_classes))
        return published

    monkeypatch.setattr(timm, "create_model", create_model)
    load_backbone(model, "hub")
    assert asked == [(NAME, True, 0)]
    for key, value in model.backbone.state_dict().items():
        assert torch.equal(value, published.state_dict()[key])


def test_save_and_load(tmp_path: Path) -> None:
    model = Classifier(NAME, 3).eval()
    save(model, tmp_path / "w.safetensors", {**ABOUT, "note": [1]})
    other, about = load(tmp_path / "w.safetensors")
    assert about == {"backbone": NAME, **ABOUT, "note": [1]}
    assert not other.training
    assert torch.equal(other(images()), model(images()))
    assert [path.name for path in tmp_path.iterdir()] == ["w.safetensors"]


def test_load_something_else(tmp_path: Path) -> None:
    foreign, cut = tmp_path / "foreign.safetensors", tmp_path / "cut.safetensors"
    safetensors.torch.save_file({"a": torch.zeros(2)}, foreign)
    save(Classifier(NAME, 3), cut, ABOUT)
    cut.write_bytes(cut.read_bytes()[:-100])
    for path in (foreign, cut, tmp_path / "missing.safetensors"):
        with pytest.raises(ValueError, match="holds no weights that mlml wrote") as caught:
            load(path)
        assert path.name in str(caught.value)


@pytest.mark.parametrize(
    ("number", "dtype"), [(float("nan"), torch.float32), (float("inf"), torch.half), (0, torch.int8)]
)
def test_trained_weights_that_are_no_numbers(tmp_path: Path, number: float, dtype: torch.dtype) -> None:
    model = Classifier(NAME, 3)
    path = tmp_path / "w.safetensors"
    state = {key: value.contiguous() for key, value in model.state_dict().items()}
    state["head.bias"] = torch.full((3,), number).to(dtype)
    safetensors.torch.save_file(state, path, {"mlml": json.dumps({"backbone": NAME, **ABOUT})})
    with pytest.raises(ValueError, match=r"holds no weights that mlml wrote: head\.bias holds "):
        load(path)


METADATA: dict[str, str | dict[str, Any]] = {
    "no JSON": "{",
    "list": "[]",
    "number": "5",
    "nested": "[" * 100_000,
    "nothing": "{}",
    "no classes": {"classes": []},
    "classes of numbers": {"classes": [1, 2, 3]},
    "text as classes": {"classes": "abc"},
    "too many classes": {"classes": ["x"] * 10_000},
    "backbone of the hub": {"backbone": "hf-hub:x/y"},
    "another backbone": {"backbone": "test_vit"},
    "no text": {"backbone": 5},
    "size": {"image_size": "x"},
    "negative size": {"image_size": -1},
    "huge size": {"image_size": 10**9},
    "score": {"validation_mAP": float("nan")},
    "epoch": {"epoch": None},
    "engine": {"engine": {**ENGINE, "precision": "int8"}},
    "no engine": {"engine": None},
}


@pytest.mark.parametrize("kind", METADATA)
def test_weights_with_other_metadata(tmp_path: Path, kind: str) -> None:
    given = METADATA[kind]
    text = given if isinstance(given, str) else json.dumps({"backbone": NAME, **ABOUT, **given})
    path = tmp_path / "w.safetensors"
    state = {key: value.contiguous() for key, value in Classifier(NAME, 3).state_dict().items()}
    safetensors.torch.save_file(state, path, {"mlml": text})
    with pytest.raises(ValueError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path} holds no weights that mlml wrote: ")
