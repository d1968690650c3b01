"""Batch normalisation over the whole batch when several processes share it."""

from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from mlml.runtime import parallel


def synchronise(model: nn.Module, device: torch.device) -> None:
    """Have every batch norm layer take mean and variance of all processes' shares together, as one process does.

    On a GPU these are torch's own layers. torch has none for the CPU: there the layers get another `forward`.
    """
    if parallel.world_size() == 1:
        return
    if device.type == "cuda":
        from timm.layers import convert_sync_batchnorm

        convert_sync_batchnorm(model)
        return
    for layer in model.modules():
        if isinstance(layer, _BatchNorm):
            layer.forward = MethodType(_forward, layer)  # type: ignore[method-assign]


def _forward(layer: Any, inputs: Tensor) -> Tensor:
    if not layer.training:  # nothing to share, and the processes do not take the same number of such batches
        result: Tensor = type(layer).forward(layer, inputs)
        return result
    mean, variance, count = _statistics(inputs.float())
    if layer.track_running_stats:
        _follow(layer, mean.detach(), variance.detach() * count / (count - 1))
    scale = (variance + layer.eps).rsqrt()
    if layer.weight is not None:
        scale = scale * layer.weight
    shift = -mean * scale if layer.bias is None else layer.bias - mean * scale
    result = (inputs * _by_channel(scale, inputs) + _by_channel(shift, inputs)).to(inputs.dtype)
    # timm's layers go on with these.
    return layer.act(layer.drop(result)) if hasattr(layer, "act") else result


def _statistics(inputs: Tensor) -> tuple[Tensor, Tensor, float]:
    """Mean and variance (of all, not of a sample) of each channel over all processes, and how many values it has."""
    axes = [axis for axis in range(inputs.ndim) if axis != 1]
    count = parallel.all_reduce(torch.tensor(float(inputs.numel() / inputs.shape[1]))).item()
    mean = _Sum.apply(inputs.sum(axes)) / count
    centred = inputs - _by_channel(mean, inputs)
    return mean, _Sum.apply((centred * centred).sum(axes)) / count, count


def _by_channel(values: Tensor, inputs: Tensor) -> Tensor:
    return values.view(1, -1, *[1] * (inputs.ndim - 2))


class _Sum(torch.autograd.Function):
    """Sum over the processes; so is its gradient, as each process's result depends on every process's part."""

    @staticmethod
    def forward(ctx: Any, part: Tensor) -> Tensor:
        return parallel.all_reduce(part.clone())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return parallel.all_reduce(gradients[0].clone())


@torch.no_grad()
def _follow(layer: Any, mean: Tensor, variance: Tensor) -> None:
    """Move the running statistics as torch's layer does."""
    layer.num_batches_tracked.add_(1)
    share = 1 / float(layer.num_batches_tracked) if layer.momentum is None else layer.momentum
    layer.running_mean.lerp_(mean, share)
    layer.running_var.lerp_(variance, share)
