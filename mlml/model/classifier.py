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
        precision: in which the backbone computes; weights, features and logits are float32.
        channels_last: whether the channels of a pixel lie side by side in memory.

    Raises:
        ValueError: timm has no such model.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, backbone: str, classes: int) -> None:
        import timm.data  # here, as it takes seconds, which a wrong parameter is not to wait for

        super().__init__()
        self.name = backbone
        self.precision: Precision = "float32"
        self._compiled: Callable[[Tensor], Tensor] | None = None
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
        self.set_layout(channels_last=True)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.mean.device

    def set_layout(self, channels_last: bool) -> None:
        """Choose how the pixels and the weights lie in memory; the results differ by rounding."""
        self.channels_last = channels_last
        self.to(memory_format=torch.channels_last if channels_last else torch.contiguous_format)

    def compile_training(self, mode: str) -> None:
        """Have `torch.compile` make one program of the backbone in training mode, at its first batch of each size.

        Args:
            mode: "default" or "reduce-overhead", which also records CUDA graphs.
        """
        self._compiled = torch.compile(self._features, mode=mode, dynamic=False)

    def features(self, images: Tensor) -> Tensor:
        """What the linear layer sees, float32 [b, width], of images uint8 [b, S, S, 3]."""
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
    """The linear layer of a classifier as a model of its own; its weights are the classifier's.

    Its images are the backbone's features.
    """

    def __init__(self, classifier: Classifier) -> None:
        super().__init__()
        self.head = classifier.head

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.head.weight.device

    def forward(self, features: Tensor) -> Tensor:
        """Logits float32 [b, L] of features float32 [b, width]."""
        logits: Tensor = self.head(features)
        return logits


Model = Classifier | LinearProbe


@torch.inference_mode()
def check_size(model: Classifier, size: int, alone: bool = False) -> None:
    """See whether the model takes images of this size, before anything long begins.

    Args:
        alone: whether it is to be trained on batches of one image, too, which batch normalisation does not take where
            it sees one pixel of each.

    Raises:
        ValueError: it does not; says what may be changed.
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
            copy.deepcopy(model).train()(image)  # a copy: it changes the running statistics
        except ValueError as error:
            raise ValueError(
                f"train.batch_size: with it a batch has one image, on which {model.name!r} cannot be trained at "
                f"{size} x {size} ({str(error).splitlines()[0]}); another one leaves no image alone"
            ) from None
