"""Shared by the tests of single methods: observed labels as NumPy arrays, and all images as one batch."""

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mlml import methods
from mlml.methods import Batch, Method, TrainLabels

MIXED = np.array([[1, 0, -1, 0], [0, 0, 0, 1], [0, 0, 0, 0], [1, -1, 1, -1], [-1, 0, 0, -1]], np.int8)


def observed_labels(images: int, classes: int, least: int = 1) -> st.SearchStrategy[np.ndarray]:
    """int8 [n, L] with 1 <= n <= images and least <= L <= classes."""
    shapes = st.tuples(st.integers(1, images), st.integers(least, classes))
    return hnp.arrays(np.int8, shapes, elements=st.sampled_from([-1, 0, 1]))


def build(name: str, observed: np.ndarray, prior: float | None = 1.5, epochs: int = 10, **options: object) -> Method:
    torch.manual_seed(0)
    return methods.build(name, TrainLabels(torch.from_numpy(observed), prior, epochs), options)


def whole(observed: np.ndarray) -> Batch:
    return Batch(torch.from_numpy(observed), torch.arange(len(observed)))
