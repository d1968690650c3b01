"""What the result of a run depends on, as one short text: parameters, data, code and the machine."""

import hashlib
import json
import platform
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

PACKAGES = ("numpy", "pillow", "timm", "torch")
OWN = ("mlml", "stages", "__main__")  # the stage itself is __main__


def fingerprint(values: Any, files: Iterable[Path], large: Iterable[Path], device: torch.device) -> str:
    """32 hexadecimal digits, others if anything is another.

    The code is that of the modules of this project that are loaded now, of whatever method; the machine is the kind of
    device and the number of threads, which decides in what order numbers are added.

    Args:
        values: parameters, as JSON values.
        files: whose contents count.
        large: too large to be read once more: their names, sizes and times count.
    """
    parts = hashlib.sha256()
    versions = {package: version(package) for package in PACKAGES}
    machine = [platform.machine(), platform.python_version(), _name(device), torch.get_num_threads()]
    parts.update(json.dumps([values, versions, machine], sort_keys=True).encode())
    for path in [*files, *_code()]:
        parts.update(hashlib.sha256(path.read_bytes()).digest())
    for path in large:
        about = path.stat()
        parts.update(f"{path.name} {about.st_size} {about.st_mtime_ns}\n".encode())
    return parts.hexdigest()[:32]


def _code() -> list[Path]:
    modules = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in OWN}
    return [Path(file) for _, module in sorted(modules.items()) if (file := getattr(module, "__file__", None))]


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
