"""What does not end, or would fill the memory, is not read."""

import os
import socket
from pathlib import Path

import pytest

from mlml.datasets.files.regular_files import check_file, check_folder, kind, read_file


def message(call: object, *args: object) -> str:
    with pytest.raises(ValueError) as error:
        call(*args)  # type: ignore[operator]
    return str(error.value)


def test_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    path = Path("x")
    assert kind(path) is None and message(check_file, path, "a list") == "x is missing; it must be a list"
    path.write_bytes(b"abc")
    check_file(path, "a list")
    assert kind(path) is None and read_file(path) == b"abc"
    assert message(read_file, path, 2) == "it has 3 bytes; at most 2 are read"
    path.unlink()
    made = socket.socket(socket.AF_UNIX)
    for make, what in ((os.mkfifo, "a named pipe"), (os.mkdir, "a folder"), (made.bind, "a socket")):
        make(str(path))
        assert kind(path) == what
        assert message(check_file, path, "a list") == f"x is {what}; it must be a list"
        assert message(read_file, path) == f"it is {what}, not a file"
        path.rename(f"{what} elsewhere")
    made.close()
    path.symlink_to("/dev/zero")
    assert kind(path) == "a device"
    assert kind("a\0b") is None and kind("x" * 5000) is None


def test_a_folder_that_a_run_would_trip_over(tmp_path: Path) -> None:
    for name in ("a.jpg", "Ka\u0308se\n.jpg", ".b"):
        (tmp_path / name).touch()
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / ".git/pipe")
    check_folder(tmp_path)
    os.mkfifo(tmp_path / "pi\npe")
    (tmp_path / "sub").mkdir()
    (tmp_path / os.fsdecode(b"sub/\xff.jpg")).touch()
    with pytest.raises(ValueError) as error:
        check_folder(tmp_path)
    assert str(error.value).split("\n") == [
        f"{tmp_path}: files that cannot be used: 2",
        f"{tmp_path}/pi\\npe is a named pipe; remove it",
        f"b'{tmp_path}/sub/\\xff.jpg': the name is not UTF-8; rename the file",
    ]
