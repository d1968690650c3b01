"""What not every machine has, and tests are skipped without: real label lists and photographs, a GPU; memory traced."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
import torch

DATA = Path(__file__).parents[2] / "shared" / "data"

Result = TypeVar("Result")
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"{DATA} is not here: real label lists and photographs")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU is here")


def traced(work: Callable[[], Result]) -> tuple[Result, int]:
    """The result, and the peak of Python's memory in bytes."""
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def coco_labels(part: str) -> np.ndarray:
    """COCO 2014 image labels, int8 [n, 80] of +1 and -1, image ids ordered as strings; part "train" or "val"."""
    with np.load(DATA / "coco2014/labels.npz") as file:
        packed, names = file[part], file[f"{part}_files"]
    ids = [str(int(name.rpartition("_")[2].removesuffix(".jpg"))) for name in names]
    order = sorted(range(len(ids)), key=ids.__getitem__)
    return (np.unpackbits(packed, axis=1)[order, :80].astype(np.int8) * 2) - 1
