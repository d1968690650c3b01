"""How the hardware is used: what the parameters leave open is chosen for the machine."""

import os
import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple

import torch
from torch import nn

from mlml.core.params import Section
from mlml.model.classifier import Classifier, Precision
from mlml.runtime import parallel

PAYS = 5e9  # pixels of a run from which torch.compile, a minute or two on a GPU, is taken to be worth it; an estimate
SHARE = 1 / 3  # of a GPU's free memory that images may take; the rest is for training


class Engine(Section):
    """How the hardware is used; "auto" is settled by `choose` when the machine is known.

    Attributes:
        precision: in which the backbone computes. Weights, logits and losses are float32 always.
        compile: mode of torch.compile for the training step; "reduce-overhead" records CUDA graphs.
        channels_last: whether the channels of a pixel lie side by side in memory.
        tf32: whether a GPU may multiply float32 numbers with 10 bits of fraction (TensorFloat-32).
        inputs: where the training and validation images are held: on the device, or read from the disk for each batch.
        sync_batch_norm: with several processes, whether batch normalisation is over the whole batch, as with one
            process, or over each one's share.
    """

    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    compile: Literal["auto", "none", "default", "reduce-overhead"] = "auto"
    channels_last: bool = True
    tf32: bool = True
    inputs: Literal["auto", "disk", "device"] = "auto"
    sync_batch_norm: bool = True


class Chosen(NamedTuple):
    """What a run uses; the fields are those of `Engine`, without "auto".

    Attributes:
        device: its kind and name.
        processes: how many share each batch.
    """

    device: str
    processes: int
    precision: Precision
    compile: str
    channels_last: bool
    tf32: bool
    inputs: str
    sync_batch_norm: bool

    def line(self) -> str:
        """In words."""
        on_gpu = self.device.startswith("cuda")
        words = [
            self.device,
            f"{self.processes} processes" if self.processes > 1 else "",
            self.precision,
            "TF32" if on_gpu and self.tf32 else "",
            "channels_last" if self.channels_last else "channels first",
            "not compiled" if self.compile == "none" else f"torch.compile {self.compile}",
            f"images from the {self.inputs}",
            "" if self.processes == 1 else "batch norm over all" if self.sync_batch_norm else "batch norm of each",
        ]
        return ", ".join(filter(None, words))


def choose(wanted: Engine, device: torch.device, model: Classifier, image_bytes: float, pixels: float) -> Chosen:
    """Settle what is "auto".

    Args:
        image_bytes: of all training and validation images, decoded.
        pixels: of all training images of all epochs.

    Raises:
        ValueError: what is wanted does not go together.
    """
    chosen: dict[str, Any] = {name: getattr(wanted, name) for name in Engine.model_fields}
    if wanted.precision == "auto":
        chosen["precision"] = "bfloat16" if _bfloat16_pays(device, model) else "float32"
    if wanted.compile == "auto":
        pays = device.type == "cuda" and pixels >= PAYS and _can_compile()
        # CUDA graphs and the exchange of gradients between processes do not go together.
        chosen["compile"] = ("reduce-overhead" if parallel.world_size() == 1 else "default") if pays else "none"
    if chosen["compile"] == "reduce-overhead" and parallel.world_size() > 1:
        raise ValueError(
            f"train.compile: reduce-overhead is not allowed with {parallel.world_size()} processes; "
            "default is, and none"
        )
    if wanted.inputs == "auto":
        fits = device.type == "cuda" and image_bytes <= SHARE * torch.cuda.mem_get_info(device)[0]
        chosen["inputs"] = "device" if fits else "disk"
    name = f"cuda ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else device.type
    return Chosen(name, parallel.world_size(), **chosen)


def _can_compile() -> bool:
    """Whether torch.compile has what it needs on a GPU: Triton, which calls a C compiler."""
    compilers = [*os.environ.get("CC", "").split()[:1], "cc", "gcc", "clang"]
    return find_spec("triton") is not None and any(map(shutil.which, compilers))


def _bfloat16_pays(device: torch.device, model: Classifier) -> bool:
    """On a GPU that has it; on a CPU that has it for all but depthwise convolutions, which are slower in it there."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type != "cpu" or not (torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()):
        return False
    convolutions = (layer for layer in model.modules() if isinstance(layer, nn.Conv2d))
    return not any(layer.groups > 1 and layer.groups == layer.in_channels for layer in convolutions)


def use(chosen: Chosen, model: Classifier) -> None:
    """Set it up for training."""
    use_again(chosen._asdict(), model)
    if chosen.compile != "none":
        model.compile_training(chosen.compile)


def use_again(known: Mapping[str, Any], model: Classifier) -> None:
    """Set up what decides the digits of predictions, so that test images are predicted as the validation images were.

    Args:
        known: what `Chosen` had, as it is kept with the weights.
    """
    model.precision = known["precision"]
    model.set_layout(known["channels_last"])
    if torch.cuda.is_available():
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = known["tf32"]
