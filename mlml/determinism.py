"""The same seed on the same machine, the same result."""

import os

import torch


def seed_everything(seed: int) -> None:
    """Seed torch and take its deterministic algorithms."""
    torch.manual_seed(seed)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it, products on a GPU may differ
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # nobody reads such memory
    torch.backends.cudnn.benchmark = False
