from collections.abc import Callable
from typing import NamedTuple

import pytest

from mlml.commands.app import main


class Ended(NamedTuple):
    """What a command leaves."""

    status: int
    out: str
    err: str


@pytest.fixture
def mlml(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """The command, in this process."""
    monkeypatch.setenv("MLML_TRACEBACK", "")  # --debug sets it: what it was before is noted here
    monkeypatch.delenv("MLML_TRACEBACK")

    def run(*words: object) -> Ended:
        with pytest.raises(SystemExit) as end:
            main([str(word) for word in words])
        assert isinstance(end.value.code, int)
        return Ended(end.value.code, *capsys.readouterr())

    return run
