"""The classifier: a timm backbone and one linear layer, from uint8 images to logits."""

import json
from pathlib import Path
from typing import Any

import safetensors.torch
import timm
import timm.data
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from mlml.files import replacing

HUB, NONE = "hub", "none"


class Classifier(nn.Module):
    """Backbone, global pooling and one linear layer, with the backbone's own normalisation in front.

    Args:
        backbone: name of a timm model, e.g. "resnet50.tv_in1k".
        classes: number of classes L.

    Raises:
        ValueError: timm has no such model.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, backbone: str, classes: int) -> None:
        super().__init__()
        self.name = backbone
        try:
            self.backbone = timm.create_model(backbone, pretrained=False, num_classes=0)
        except (RuntimeError, OSError) as error:
            close = ", ".join(timm.list_models(f"*{backbone.split('.')[0][:6]}*")[:8])
            raise ValueError(f"train.backbone: {backbone!r} is not allowed; {error}; close: {close}") from None
        # Some backbones end with a layer of another width than that of their last features.
        width = getattr(self.backbone, "head_hidden_size", None) or self.backbone.num_features
        self.head = nn.Linear(int(width), classes)
        data = timm.data.resolve_model_data_config(self.backbone)
        # Buffers, so that a weights file says how its inputs are normalised.
        self.register_buffer("mean", torch.tensor(data["mean"]).view(3, 1, 1) * 255)
        self.register_buffer("std", torch.tensor(data["std"]).view(3, 1, 1) * 255)
        self.to(memory_format=torch.channels_last)

    def features(self, images: Tensor) -> Tensor:
        """What the linear layer sees, float [b, width], of images uint8 [b, S, S, 3]."""
        # The permuted rows are channels_last already: no copy.
        inputs = (images.permute(0, 3, 1, 2).to(self.mean.dtype) - self.mean) / self.std
        features: Tensor = self.backbone(inputs)
        return features

    def forward(self, images: Tensor) -> Tensor:
        """Logits float32 [b, L] of images uint8 [b, S, S, 3]."""
        logits: Tensor = self.head(self.features(images))
        return logits.float()


@torch.inference_mode()
def check_size(model: Classifier, size: int) -> None:
    """See whether the model takes images of this size, before anything long begins.

    Raises:
        ValueError: it does not; says what may be changed.
    """
    training = model.training
    try:
        model.eval()(torch.zeros(1, size, size, 3, dtype=torch.uint8, device=model.mean.device))
    except (RuntimeError, AssertionError, ValueError) as error:
        raise ValueError(
            f"train.backbone: {model.name!r} does not take {size} x {size} images ({str(error).splitlines()[0]}); "
            "prepare.image_size is another size"
        ) from None
    finally:
        model.train(training)


def load_backbone(model: Classifier, weights: str) -> None:
    """Give the backbone its initial weights.

    Args:
        weights: "hub": timm's own, downloaded at first use; "none": stay random; else the path of a
            .safetensors or .pth file with the backbone's state (a classification layer in it is left out).

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
    try:
        pretrained = timm.create_model(backbone, pretrained=True, num_classes=0)
    # Whatever the hub's client raises, httpx's errors among them, means the same to the user.
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
    """Write the weights as safetensors, with `about` (JSON values) and the backbone's name as metadata."""
    state = {key: value.contiguous().cpu() for key, value in model.state_dict().items()}
    with replacing(path) as part:
        safetensors.torch.save_file(state, part, {"mlml": json.dumps({"backbone": model.name, **about})})


def load(path: Path) -> tuple[Classifier, dict[str, Any]]:
    """Read what `save` wrote: the model, in evaluation mode, and what is known about it.

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
