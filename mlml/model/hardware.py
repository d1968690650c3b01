"""How the hardware is used: settles the parameters that are "auto" for this machine."""

import os
import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from mlml.model.classifier import Classifier
from mlml.model.engine import Engine
from mlml.runtime import parallel

PAYS = 5e9  # pixels trained on from which compiling, a minute or two, is taken to be worth it; an estimate
SHARE = 1 / 3  # of a GPU's free memory that images may take; the rest is for training


class Chosen(Engine):
    """How a run uses the hardware: `Engine` without "auto".

    Attributes:
        device: its kind and name.
        processes: how many share each batch.
    """

    device: str
    processes: int

    def line(self) -> str:
        """One line of text for the user."""
        on_gpu = self.device.startswith("cuda")
        words = [
            self.device,
            f"{self.processes} processes" if self.processes > 1 else "",
            self.precision,
            "TF32" if on_gpu and self.tf32 else "",
            "channels_last" if self.channels_last else "channels first",
            "not compiled" if self.compile == "none" else f"torch.compile {self.compile}",
            f"images from the {self.inputs}",
            "" if self.processes == 1 else "batch norm over all" if self.sync_batch_norm else "batch norm per process",
        ]
        return ", ".join(filter(None, words))


def choose(engine: Engine, device: torch.device, model: Classifier, image_bytes: float, pixels: float) -> Chosen:
    """Settle what is "auto".

    Args:
        image_bytes: of all training and validation images, decoded.
        pixels: of all training images of all epochs.

    Raises:
        ValueError: values that exclude each other.
    """
    settled = {name: getattr(engine, name) for name in Engine.model_fields}
    on_gpu, processes = device.type == "cuda", parallel.world_size()
    if engine.precision == "auto":
        settled["precision"] = "bfloat16" if _bfloat16_pays(device, model) else "float32"
    if engine.compile == "auto":
        pays = on_gpu and pixels >= PAYS and _can_compile()
        # CUDA graphs exclude the exchange of gradients between processes.
        settled["compile"] = ("reduce-overhead" if processes == 1 else "default") if pays else "none"
    if settled["compile"] == "reduce-overhead" and processes > 1:
        raise ValueError(
            f"train.compile: reduce-overhead is not allowed with {processes} processes; default is, and none"
        )
    if engine.inputs == "auto":
        fits = on_gpu and image_bytes <= SHARE * torch.cuda.mem_get_info(device)[0]
        settled["inputs"] = "device" if fits else "disk"
    settled["sync_batch_norm"] = engine.sync_batch_norm and (on_gpu or processes == 1)
    name = f"cuda ({torch.cuda.get_device_name(device)})" if on_gpu else device.type
    return Chosen(**settled, device=name, processes=processes)


def _can_compile() -> bool:
    """Whether torch.compile has what it needs on a GPU: Triton, which calls a C compiler."""
    compilers = [*os.environ.get("CC", "").split()[:1], "cc", "gcc", "clang"]
    return find_spec("triton") is not None and any(map(shutil.which, compilers))


def _bfloat16_pays(device: torch.device, model: Classifier) -> bool:
    """Whether bfloat16 is fast here: on GPUs that have it, and on such CPUs unless convolutions are depthwise."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    # Private, and missing from some versions of torch.
    fast = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    if device.type != "cpu" or not any(getattr(torch.cpu, name, bool)() for name in fast):
        return False
    convolutions = (layer for layer in model.modules() if isinstance(layer, nn.Conv2d))
    return not any(layer.groups > 1 and layer.groups == layer.in_channels for layer in convolutions)


def set_up_training(chosen: Chosen, model: Classifier) -> None:
    """Prepare `model` for training, before it is moved to the device."""
    set_up_prediction(chosen.model_dump(), model)
    if chosen.processes > 1 and chosen.sync_batch_norm:
        from timm.layers import convert_sync_batchnorm

        convert_sync_batchnorm(model)
    if chosen.compile != "none":
        model.compile_training(chosen.compile)


def set_up_prediction(metadata: Mapping[str, Any], model: Classifier) -> None:
    """Set what decides the digits of predictions, so that test and validation images are predicted alike.

    Args:
        metadata: the fields of `Chosen`, as the weights file holds them.
    """
    model.precision = metadata["precision"]
    model.set_layout(metadata["channels_last"])
    if torch.cuda.is_available():
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = metadata["tf32"]
