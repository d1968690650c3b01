"""The classifier: a timm backbone and one linear layer, from uint8 images to logits."""

import copy
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

Precision = Literal["float32", "bfloat16"]


class Classifier(nn.Module):
    """Backbone, global pooling and one linear layer, with the backbone's own normalisation in front.

    Args:
        backbone: name of a timm model, e.g. "resnet50.tv_in1k".
        classes: number of classes L.

    Attributes:
        precision: of the backbone's arithmetic; weights, features and logits are float32.
        channels_last: whether the channels of a pixel are adjacent in memory.

    Raises:
        ValueError: timm has no such model.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, backbone: str, classes: int) -> None:
        import timm.data  # takes seconds: a wrong parameter is reported before

        super().__init__()
        self.name = backbone
        self.precision: Precision = "float32"
        self._compiled: Callable[[Tensor], Tensor] | None = None
        check_backbone(backbone)
        self.backbone = timm.create_model(backbone, pretrained=False, num_classes=0)
        # Some backbones end with a layer that changes the width.
        width = getattr(self.backbone, "head_hidden_size", None) or self.backbone.num_features
        self.head = nn.Linear(int(width), classes)
        data = timm.data.resolve_model_data_config(self.backbone)
        # Buffers, so that a weights file holds the normalisation of its inputs.
        self.register_buffer("mean", torch.tensor(data["mean"]).view(3, 1, 1) * 255)
        self.register_buffer("std", torch.tensor(data["std"]).view(3, 1, 1) * 255)
        self.set_layout(channels_last=True)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.mean.device

    def set_layout(self, channels_last: bool) -> None:
        """Choose the memory layout of pixels and weights; results differ by rounding only."""
        self.channels_last = channels_last
        self.to(memory_format=torch.channels_last if channels_last else torch.contiguous_format)

    def compile_training(self, mode: str) -> None:
        """Compile the backbone's training mode by `torch.compile`, at the first batch of each size.

        Args:
            mode: "default" or "reduce-overhead", which also records CUDA graphs.
        """
        self._compiled = torch.compile(self._features, mode=mode, dynamic=False)

    def features(self, images: Tensor) -> Tensor:
        """The backbone's features, float32 [b, width], of images uint8 [b, S, S, 3]."""
        run = self._compiled if self._compiled is not None and self.training else self._features
        return run(images)

    def _features(self, images: Tensor) -> Tensor:
        # The permuted rows are channels_last already: no copy.
        inputs = (images.permute(0, 3, 1, 2).to(self.mean.dtype) - self.mean) / self.std
        inputs = inputs if self.channels_last else inputs.contiguous()
        with torch.autocast(images.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            features: Tensor = self.backbone(inputs)
        return features.to(self.mean.dtype)

    def forward(self, images: Tensor) -> Tensor:
        """Logits float32 [b, L] of images uint8 [b, S, S, 3]."""
        logits: Tensor = self.head(self.features(images))
        return logits


class LinearProbe(nn.Module):
    """The linear layer of a classifier as a model of its own, whose inputs are the backbone's features.

    It shares the classifier's weights.
    """

    def __init__(self, classifier: Classifier) -> None:
        super().__init__()
        self.head = classifier.head

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.head.weight.device

    def forward(self, features: Tensor) -> Tensor:
        """Logits float32 [b, L] of features float32 [b, width]."""
        logits: Tensor = self.head(features)
        return logits


Model = Classifier | LinearProbe


def check_backbone(name: str) -> None:
    """Check that timm has a model of this name.

    Raises:
        ValueError: it has none. timm.create_model would also take hf-hub:..., which fetches something, and
            local-dir:..., which opens something.
    """
    import timm

    model, _, weights = name.partition(".")
    if not timm.is_model(name) or (weights and name not in timm.list_models(model, pretrained=True)):
        close = ", ".join(timm.list_models(f"*{model[:6]}*")[:8])
        close = f"; close: {close}" if close else ""
        raise ValueError(f"train.backbone: {name!r} is not allowed; timm {timm.__version__} has no such model{close}")


@torch.inference_mode()
def check_size(model: Classifier, size: int, alone: bool = False) -> None:
    """Check that the model takes images of this size, before anything long begins.

    Args:
        alone: whether some training batches have a single image, which batch normalisation refuses where it sees one
            pixel per image.

    Raises:
        ValueError: it does not; says what to change.
    """
    training = model.training
    image = torch.zeros(1, size, size, 3, dtype=torch.uint8, device=model.device)
    try:
        model.eval()(image)
    except (RuntimeError, AssertionError, ValueError) as error:
        raise ValueError(
            f"train.backbone: {model.name!r} does not take {size} x {size} images ({str(error).splitlines()[0]}); "
            "prepare.image_size is another size"
        ) from None
    finally:
        model.train(training)
    if alone:
        try:
            copy.deepcopy(model).train()(image)  # a copy: training changes the running statistics
        except ValueError as error:
            raise ValueError(
                f"train.batch_size: with it a batch has one image, on which {model.name!r} cannot be trained at "
                f"{size} x {size} ({str(error).splitlines()[0]}); choose another batch size"
            ) from None
