"""Shared by the tests of the readers."""

from pathlib import Path
from typing import Any

import pytest

from mlml import datasets
from mlml.datasets.source import Source


class Reader:
    """The reader called `name`, with default options."""

    def __init__(self, name: str, **options: Any) -> None:
        self.name, self.options = name, options

    def read(self, folder: Path, **options: Any) -> Source:
        return datasets.read(self.name, folder, folder, {**self.options, **options})

    def fault(self, folder: Path, **options: Any) -> str:
        """The message of the ValueError, with FOLDER for the folder."""
        with pytest.raises(ValueError) as error:
            self.read(folder, **options)
        return str(error.value).replace(str(folder), "FOLDER")

    def faults(self, folder: Path, **options: Any) -> list[str]:
        """The lines of the message after the first, which counts them."""
        first, *lines = self.fault(folder, **options).split("\n")
        assert first.startswith("FOLDER") and first.endswith(f": faults: {len(lines)}")
        return lines
