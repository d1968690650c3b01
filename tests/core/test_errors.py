import errno
import os
import re
from pathlib import Path

import pytest

from mlml.core.errors import TRACEBACK, USER_ERRORS, escaped, message, one_line, quoted, raise_errors


@pytest.mark.parametrize("kind", USER_ERRORS)
def test_an_error_is_one_line_and_a_traceback_on_demand(
    kind: type[Exception], capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TRACEBACK, raising=False)
    with pytest.raises(SystemExit) as end, one_line("prepare"):
        raise kind("no label")
    assert (end.value.code, *capsys.readouterr()) == (1, "", "prepare: no label\n")
    monkeypatch.setenv(TRACEBACK, "1")
    with pytest.raises(kind), one_line("prepare"):
        raise kind("no label")


def test_a_missing_file_has_no_number(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TRACEBACK, raising=False)
    with pytest.raises(SystemExit), one_line("mlml results"):
        Path("no/file").read_text()
    assert capsys.readouterr().err == "mlml results: No such file or directory: 'no/file'\n"


def test_an_error_of_the_disk_has_a_remedy(tmp_path: Path) -> None:
    full = message(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "x")))
    assert re.fullmatch(r"No space left on device: '.*/x' \([0-9,]+ MB are free\); make room", full)
    assert message(OSError(errno.ENOSPC, "full", "no/such/x")) == "full: 'no/such/x'; make room"
    assert message(PermissionError(errno.EACCES, "denied", "x")) == "denied: 'x'; see to its permissions"
    assert "ulimit -f" in message(OSError(errno.EFBIG, "too large", "x"))
    assert message(MemoryError()) == "out of memory"


def test_text_from_outside_does_not_take_over_a_terminal() -> None:
    assert escaped("\x1b]0;t\x07\x9b\r\u202e\ud800") == r"\x1b]0;t\x07\x9b\r\u202e\ud800"
    assert escaped(text := "Zürich, \u200d\u3000 線\n\t'é'") == text
    assert quoted("a\nb") == r"'a\nb'"
    assert quoted("x" * 200) == repr("x" * 200) and quoted("x" * 201) == f"{'x' * 200!r}... (201 characters)"
    assert message(ValueError("class '\x1b[2J'")) == r"class '\x1b[2J'"


@pytest.mark.parametrize(("error", "end"), [(KeyboardInterrupt(), ""), (KeyboardInterrupt("a is kept"), "; a is kept")])
def test_ctrl_c(error: KeyboardInterrupt, end: str, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as ended, one_line("train"):
        raise error
    assert (ended.value.code, *capsys.readouterr()) == (130, "", f"train: interrupted{end}\n")


@pytest.mark.parametrize("error", [KeyError("lr"), BrokenPipeError(), SystemExit(0)])
def test_what_a_user_cannot_mend_passes(error: BaseException) -> None:
    with pytest.raises(type(error)), one_line("train"):
        raise error


def test_many_faults_are_told_together() -> None:
    raise_errors("nothing", [])
    with pytest.raises(ValueError) as error:
        raise_errors("25 faults", list(map(str, range(25))))
    assert str(error.value).splitlines() == ["25 faults", *map(str, range(20)), "... and 5 more"]
    with pytest.raises(ValueError, match=r"^2 faults\na\\nb\nc$"):
        raise_errors("2 faults", ["a\nb", "c"])
