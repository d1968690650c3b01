"""Weights files: initial weights of a backbone, and trained classifiers."""

import json
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from mlml.core.files import atomic_write
from mlml.model.classifier import Classifier

HUB, NONE = "hub", "none"


def load_backbone(model: Classifier, weights: str) -> None:
    """Load the backbone's initial weights.

    Args:
        weights: "hub": timm's own, downloaded at first use; "none": random; else the path of a .safetensors or
            .pth file with the backbone's state, whose classification layer, if any, is left out.

    Raises:
        ValueError: the file is missing, no weights file, or of another model.
        ConnectionError: the hub cannot be reached; says what to do.
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
        raise ConnectionError(
            f"train.weights: no weights for {backbone} from the hub ({type(error).__name__}: {str(error)[:200]}). "
            "Go online once, or download the weights elsewhere and set train.weights to the file, "
            "or to 'none' to train from scratch."
        ) from None
    state: dict[str, Tensor] = pretrained.state_dict()
    return state


def _file_state(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise ValueError(f"train.weights: {str(path)!r} is not allowed; it must be 'hub', 'none' or a file that exists")
    try:
        if path.suffix == ".safetensors":
            state: Any = safetensors.torch.load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # unpickling garbage raises anything
        raise ValueError(f"train.weights: {path} is no weights file: {str(error).splitlines()[0][:200]}") from None
    state = state.get("state_dict", state) if isinstance(state, dict) else state
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise ValueError(f"train.weights: {path} holds no state dict (names and tensors)")
    return state


def save(model: Classifier, path: Path, about: dict[str, Any]) -> None:
    """Write the weights as safetensors, with the backbone's name and `about` (JSON values) in the metadata."""
    state = {key: value.contiguous().cpu() for key, value in model.state_dict().items()}
    with atomic_write(path) as part:
        safetensors.torch.save_file(state, part, {"mlml": json.dumps({"backbone": model.name, **about})})


def load(path: Path) -> tuple[Classifier, dict[str, Any]]:
    """Read what `save` wrote: the model in evaluation mode, and its metadata.

    Raises:
        ValueError: no such file, or not one that `save` wrote.
    """
    try:
        with safe_open(path, "pt") as file:
            about: dict[str, Any] = json.loads((file.metadata() or {})["mlml"])
        model = Classifier(about["backbone"], len(about["classes"]))
        model.load_state_dict(safetensors.torch.load_file(path))
    except (OSError, SafetensorError, KeyError, RuntimeError, ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} holds no weights that mlml wrote: {error}") from None
    return model.eval(), about
