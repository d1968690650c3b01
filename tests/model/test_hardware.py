"""How the hardware is used."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from mlml.model import hardware
from mlml.model.classifier import Classifier
from mlml.model.engine import Engine
from mlml.training import loop
from tests.shared import needs_gpu
from tests.training.test_loop import L, build, data, recipe

CPU = torch.device("cpu")


def choose(
    device: torch.device = CPU, backbone: str = "test_resnet", pixels: float = 1e12, **wanted: object
) -> hardware.Chosen:
    return hardware.choose(Engine(**wanted), device, Classifier(backbone, L), 10**9, pixels)


def settled(device: str, **values: object) -> hardware.Chosen:
    return hardware.Chosen(device=device, processes=1, channels_last=True, tf32=True, sync_batch_norm=True, **values)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """A stand-in: a GPU with 30 GB free, bfloat16 and triton."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA Test")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (30 * 10**9, 80 * 10**9))
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)
    monkeypatch.setattr(hardware, "find_spec", lambda name: SimpleNamespace(name=name))
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    return torch.device("cuda")


@pytest.mark.parametrize(("fast", "backbone", "expected"), [
    (True, "test_resnet", "bfloat16"), (False, "test_resnet", "float32"), (True, "tf_efficientnet_lite0", "float32"),
])  # fmt: skip
def test_on_a_cpu(fast: bool, backbone: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: fast)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    chosen = choose(backbone=backbone)
    assert chosen == settled("cpu", precision=expected, compile="none", inputs="disk")
    assert chosen.line() == f"cpu, {expected}, channels_last, not compiled, images from the disk"


def test_on_a_gpu(gpu: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    long = choose(gpu)
    assert long == settled("cuda (NVIDIA Test)", precision="bfloat16", compile="reduce-overhead", inputs="device")
    assert long.line().endswith("TF32, channels_last, torch.compile reduce-overhead, images from the device")
    assert choose(gpu, pixels=1e9).compile == "none"  # too short for it
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2 * 10**9, 80 * 10**9))
    assert choose(gpu).inputs == "disk"  # too many images
    monkeypatch.setattr("mlml.runtime.parallel.world_size", lambda: 4)
    assert choose(gpu).compile == "default"
    assert choose(gpu).line().endswith("batch norm over all") and "4 processes" in choose(gpu).line()
    assert choose(CPU).line().endswith("batch norm per process")  # torch has no other layer for it
    with pytest.raises(
        ValueError, match=r"train\.compile: reduce-overhead is not allowed with 4 processes; default is"
    ):
        choose(gpu, compile="reduce-overhead")
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert choose(gpu).compile == "none"  # Triton without a C compiler
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(hardware, "find_spec", lambda name: None)
    assert choose(gpu).compile == "none"  # nothing to compile with


def test_test_images_are_predicted_as_the_validation_images_were() -> None:
    model = Classifier("test_resnet", L)
    hardware.set_up_prediction({"precision": "bfloat16", "channels_last": False, "tf32": True}, model)
    assert (model.precision, model.channels_last) == ("bfloat16", False)


@pytest.mark.parametrize(("name", "value"), [
    ("precision", "float32"), ("precision", "bfloat16"), ("compile", "default"), ("inputs", "device"),
    ("channels_last", False), ("tf32", False), ("sync_batch_norm", False),
])  # fmt: skip
def test_what_is_asked_for_is_taken(name: str, value: object) -> None:
    assert getattr(choose(**{name: value}), name) == value


def fit(**wanted: object) -> tuple[Classifier, list]:
    torch.manual_seed(0)
    (train, validation), plan, history = data(), recipe(epochs=2, **wanted), []
    model = Classifier(plan.backbone, L)
    hardware.set_up_training(hardware.choose(plan, CPU, model, 1, 1), model)
    loop.fit(model, build("bce"), train, validation, plan, 0, None, history.append)
    return model, history


def test_bfloat16_is_close_and_leaves_everything_float32() -> None:
    (full, exact), (model, history) = fit(precision="float32"), fit(precision="bfloat16")
    assert {value.dtype for value in model.state_dict().values()} <= {torch.float32, torch.int64}
    images = torch.from_numpy(next(data()[0].images.stream([np.arange(8)])))
    model.load_state_dict(full.state_dict())
    logits, features = model.eval()(images), model.features(images)
    assert logits.dtype == features.dtype == torch.float32
    expected = full.eval()(images)
    assert 0 < (logits - expected).abs().max() < 0.05 * expected.abs().max()
    assert history[0].loss == pytest.approx(exact[0].loss, rel=0.02)


def test_the_other_layout_gives_the_same_training() -> None:
    """With float64 nothing could differ; with float32 what rounding does to a few steps is small."""
    (_, one), (model, other) = fit(precision="float32"), fit(precision="float32", channels_last=False)
    assert one[0].loss == pytest.approx(other[0].loss, rel=1e-3)
    assert model.backbone.layer1[0].conv2.weight.is_contiguous()


def test_compiled_it_trains_the_same_and_saves_the_same_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is traced is right; the code that would be made of it takes minutes, and is tested on a GPU."""
    compiled, asked = torch.compile, []

    def trace(function: object, mode: str, dynamic: bool) -> object:
        asked.append(mode)
        return compiled(function, backend="aot_eager", dynamic=dynamic)

    monkeypatch.setattr(torch, "compile", trace)
    (plain, one), (model, other) = fit(precision="float32"), fit(precision="float32", compile="default")
    assert asked == ["default"]
    assert model.state_dict().keys() == plain.state_dict().keys()
    assert one[0].loss == pytest.approx(other[0].loss, rel=1e-3)


@needs_gpu
@pytest.mark.parametrize("wanted", [{}, {"compile": "reduce-overhead"}, {"compile": "default"}, {"inputs": "device"}])
def test_on_a_real_gpu_it_learns(wanted: dict[str, str]) -> None:
    (train, validation), plan, history = data(), recipe(epochs=6, **wanted), []
    device = torch.device("cuda")
    model = Classifier(plan.backbone, L)
    hardware.set_up_training(hardware.choose(plan, device, model, 1, 1), model)
    loop.fit(model.to(device), build("bce").to(device), train, validation, plan, 0, None, history.append)
    assert history[-1].loss < 0.8 * history[0].loss
    assert history[-1].validation_mAP > 90
