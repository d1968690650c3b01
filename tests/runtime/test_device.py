"""The device of a run, and errors when its memory runs out."""

import numpy as np
import pytest
import torch

from mlml.runtime.device import device_for, enough_memory


def test_device(monkeypatch: pytest.MonkeyPatch) -> None:
    assert device_for("cpu").type == "cpu"
    assert device_for("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    for name in ("gpu", "meta", "", "cuda:99", "cuda:x", "cpu:-5", "xla", "privateuseone", "vulkan", "mkldnn", "CPU"):
        with pytest.raises(ValueError, match=f"device: '{name}' is not allowed; it must be auto, or one that is here"):
            device_for(name)
    for number in (None, 0, True, ["cpu"]):
        with pytest.raises(ValueError, match=r"device: .* is not allowed; it must be auto, cpu, cuda, cuda:1"):
            device_for(number)
    monkeypatch.setattr("mlml.runtime.parallel.world_size", lambda: 2)
    with pytest.raises(ValueError, match="device: 'cuda:1' is not allowed with several processes; cuda gives each"):
        device_for("cuda:1")


def test_out_of_memory_says_what_needs_less() -> None:
    with pytest.raises(MemoryError) as caught, enough_memory("take less"):
        torch.empty(1 << 55)
    assert "tried to allocate" in str(caught.value)
    assert str(caught.value).endswith(": take less")
    with pytest.raises(MemoryError, match=r"^CUDA out of memory: take less$"), enough_memory("take less"):
        raise torch.OutOfMemoryError("CUDA out of memory\nmore")
    with pytest.raises(RuntimeError, match=r"^a fault$"), enough_memory("take less"):
        raise RuntimeError("a fault")
    with (
        pytest.raises(MemoryError, match=r"^cuDNN error: CUDNN_STATUS_ALLOC_FAILED: take less$"),
        enough_memory("take less"),
    ):
        raise RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED")
    with pytest.raises(MemoryError, match=r"^Unable to allocate .*: take less$"), enough_memory("take less"):
        np.empty(1 << 55)
    with pytest.raises(MemoryError, match=r"^out of memory: take less$"), enough_memory("take less"):
        raise MemoryError
