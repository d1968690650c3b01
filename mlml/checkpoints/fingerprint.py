"""A hash of everything that the result of a run depends on: parameters, data, code and machine."""

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


def fingerprint(
    values: Any, files: Iterable[Path], large: Iterable[Path], device: torch.device, loaded_code: bool = True
) -> str:
    """32 hexadecimal digits that change with any of it.

    Code means all modules of this project that are loaded now. Machine means the kind of device and the number of
    threads, which decides the order in which numbers are added.

    Args:
        values: parameters, as JSON values.
        files: hashed by content.
        large: too large to be read again: hashed by name, size and time.
        loaded_code: False: code counts only where it is among `files`.
    """
    digest = hashlib.sha256()
    versions = {package: version(package) for package in PACKAGES}
    machine = [platform.machine(), platform.python_version(), _name(device), torch.get_num_threads()]
    digest.update(json.dumps([values, versions, machine], sort_keys=True).encode())
    for path in [*files, *(_code() if loaded_code else [])]:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    for path in large:
        status = path.stat()
        digest.update(f"{path.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:32]


def _code() -> list[Path]:
    modules = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in OWN}
    return [Path(file) for _, module in sorted(modules.items()) if (file := getattr(module, "__file__", None))]


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
