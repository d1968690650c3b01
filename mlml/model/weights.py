"""Weights files: initial weights of a backbone, and trained classifiers."""

import json
import warnings
import zipfile
from pathlib import Path
from pickle import UnpicklingError
from typing import Annotated, Any

import safetensors.torch
import torch
from pydantic import ConfigDict, Field
from safetensors import SafetensorError, safe_open
from torch import Tensor

from mlml.core.files import NO_ROOM, atomic_write
from mlml.core.params import Section, parse
from mlml.images.store import Size
from mlml.model.classifier import Classifier
from mlml.model.hardware import Chosen

HUB, NONE = "hub", "none"


class About(Section):
    """What `save` keeps beside the weights, and what else a caller adds.

    Attributes:
        backbone: name of a timm model.
        classes: names of the L classes.
        image_size: edge S of the images that it was trained on, in pixels.
        upright: as in `mlml.images.decoding.decode`.
        method: that trained it.
        epoch, validation_mAP: the epoch that the weights are of, and its score in percent.
        engine: how the hardware was used.
    """

    model_config = ConfigDict(extra="allow")

    backbone: str
    classes: Annotated[list[str], Field(min_length=1)]
    image_size: Size
    upright: bool
    method: str
    epoch: Annotated[int, Field(ge=0)]
    validation_mAP: float  # noqa: N815  # mAP is the field's term
    engine: Chosen


def load_backbone(model: Classifier, weights: str) -> None:
    """Load the backbone's initial weights.

    Args:
        weights: "hub": timm's own, downloaded at first use; "none": random; else the path of a .safetensors or
            .pth file with the backbone's state, whose classification layer, if any, is left out.

    Raises:
        ValueError: the file is missing, no weights file, or of another model.
        ConnectionError: the hub cannot be reached; says what to do.
        OSError: the disk is full.
    """
    if weights == NONE:
        return
    if weights == HUB:
        state = _hub_state(model.name)
    else:
        state = _file_state(Path(weights))
        layers = model.backbone.pretrained_cfg.get("classifier") or ()
        heads = (layers,) if isinstance(layers, str) else tuple(layers)
        state = {key: value for key, value in state.items() if not key.startswith(tuple(f"{head}." for head in heads))}
        if fault := _fault(state, model.backbone.state_dict()):
            raise ValueError(f"train.weights: {weights}: {fault}; bring other weights of {model.name}")
    try:
        model.backbone.load_state_dict(state)
    except RuntimeError as error:
        first = " ".join(str(error).split()[:40])
        raise ValueError(f"train.weights: {weights} does not fit {model.name}: {first} ...") from None


def _hub_state(backbone: str) -> dict[str, Tensor]:
    import timm

    try:
        pretrained = timm.create_model(backbone, pretrained=True, num_classes=0)
    # Whatever the hub's client raises, among them httpx's errors, means the same to the user.
    except Exception as error:
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            raise
        raise ConnectionError(
            f"train.weights: no weights for {backbone} from the hub ({type(error).__name__}: {_brief(error)}). "
            "Go online once, or download the weights elsewhere and set train.weights to the file, "
            "or to 'none' to train from scratch."
        ) from None
    state: dict[str, Tensor] = pretrained.state_dict()
    return state


def _file_state(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise ValueError(f"train.weights: {str(path)!r} is not allowed; it must be 'hub', 'none' or a file that exists")
    if not path.stat().st_size:
        raise ValueError(f"train.weights: {path} is empty; bring it again")
    try:
        if path.suffix == ".safetensors":
            state: Any = safetensors.torch.load_file(path)
        else:
            if zipfile.is_zipfile(path):
                with zipfile.ZipFile(path) as archive:
                    if damaged := archive.testzip():  # torch does not look at the checksums that it writes
                        raise ValueError(f"{damaged} in it is damaged; bring it again")
            with warnings.catch_warnings():  # about TorchScript
                warnings.simplefilter("ignore")
                state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # unpickling garbage raises anything
        if (_is_pickle(path) and isinstance(error, UnpicklingError)) or "TorchScript" in str(error):
            raise ValueError(f"train.weights: {path} {_MORE}") from None
        # torch's own words advise to load without weights_only, which runs what is in the file.
        reason = f": {_brief(error)}" if "weights_only" not in str(error) and len(str(error)) > 10 else ""
        raise ValueError(f"train.weights: {path} is no weights file{reason}") from None
    state = state.get("state_dict", state) if isinstance(state, dict) else state
    if not isinstance(state, dict) or not all(isinstance(k, str) and isinstance(v, Tensor) for k, v in state.items()):
        raise ValueError(f"train.weights: {path} holds no state dict (names and tensors)")
    return state


# Loading it would run code that it holds.
_MORE = (
    "holds more than tensors, and is not loaded: it could run any program. If you trust its source, load it where it "
    "was made, and save what model.state_dict() gives by safetensors.torch.save_file"
)


def _is_pickle(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


def _brief(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _fault(state: dict[str, Tensor], own: dict[str, Tensor]) -> str:
    """What is wrong with the values of a state for a model whose state is `own`; names and shapes are not looked at."""
    for key, value in state.items():
        if value.is_meta or value.layout != torch.strided:
            return f"{key} is no dense tensor"
        if key in own and value.is_floating_point() != own[key].is_floating_point():
            return f"{key} holds {value.dtype}, not {own[key].dtype}"
        if value.is_floating_point() and not value.isfinite().all():
            return f"{key} holds values that are not finite"
    return ""


def save(model: Classifier, path: Path, about: dict[str, Any]) -> None:
    """Write the weights as safetensors, with the backbone's name and `about` (JSON values) in the metadata.

    Raises:
        OSError: they cannot be written.
    """
    state = {key: value.contiguous().cpu() for key, value in model.state_dict().items()}
    data = safetensors.torch.save(state, {"mlml": json.dumps({"backbone": model.name, **about})})
    with atomic_write(path) as part:
        part.write_bytes(data)  # save_file has an error of its own for a full disk


def load(path: Path) -> tuple[Classifier, dict[str, Any]]:
    """Read what `save` wrote: the model in evaluation mode, and its metadata.

    Raises:
        ValueError: no such file, or not one that `save` wrote.
    """
    try:
        with safe_open(path, "pt") as file:
            about: dict[str, Any] = json.loads((file.metadata() or {})["mlml"])
        parse(About, about, "metadata")
        state = safetensors.torch.load_file(path)
        if len(state["head.weight"]) != len(about["classes"]):  # before memory is taken for them
            raise ValueError(f"{len(about['classes'])} classes for {len(state['head.weight'])} outputs")
        model = Classifier(about["backbone"], len(about["classes"]))
        if fault := _fault(state, model.state_dict()):
            raise ValueError(fault)
        model.load_state_dict(state)
    except (OSError, SafetensorError, LookupError, RuntimeError, ValueError, TypeError) as error:
        raise ValueError(f"{path} holds no weights that mlml wrote: {error}") from None
    return model.eval(), about
