"""Parameters for the use of the hardware. Apart from `mlml.model.hardware`, so that reading them needs no torch."""

from typing import Literal

from mlml.core.params import Section


class Engine(Section):
    """How the hardware is used; "auto" is settled by `mlml.model.hardware.choose` when the machine is known.

    Attributes:
        precision: of the backbone. Weights, logits and losses are always float32.
        compile: mode of torch.compile for the training step; "reduce-overhead" records CUDA graphs.
        channels_last: whether the channels of a pixel are adjacent in memory.
        tf32: whether a GPU may multiply float32 numbers with 10 bits of fraction (TensorFloat-32).
        inputs: whether training and validation images are held on the device or read from disk for each batch.
        sync_batch_norm: whether several GPUs normalise over the whole batch, as one does, or each over its share.
            On CPUs it is always each over its share: torch has no synchronised layer for them.
    """

    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    compile: Literal["auto", "none", "default", "reduce-overhead"] = "auto"
    channels_last: bool = True
    tf32: bool = True
    inputs: Literal["auto", "disk", "device"] = "auto"
    sync_batch_norm: bool = True
