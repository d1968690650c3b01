"""A name never stands for half a file, and an old file is replaced, not written into."""

import errno
import os
from contextlib import suppress
from pathlib import Path

import pytest

from mlml.core.files import atomic_write, link, write_json


def test_old_file_stays_until_the_new_one_is_complete(tmp_path: Path) -> None:
    path, cache = tmp_path / "x", tmp_path / "cache"
    cache.write_text("old")
    link(cache, path)
    assert os.path.samefile(path, cache)
    with suppress(KeyError), atomic_write(path) as part:
        part.write_text("half")
        raise KeyError
    assert path.read_text() == "old" and sorted(tmp_path.iterdir()) == [cache, path]
    with atomic_write(path) as part:
        part.write_text("new")
        assert path.read_text() == "old"
    assert (path.read_text(), cache.read_text()) == ("new", "old") and sorted(tmp_path.iterdir()) == [cache, path]


def test_link_copies_where_it_cannot_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "x").write_text("content")
    link(tmp_path / "x", tmp_path / "y")
    assert (tmp_path / "y").read_text() == "content" and not os.path.samefile(tmp_path / "x", tmp_path / "y")


def test_json_that_others_cannot_read_is_not_written(tmp_path: Path) -> None:
    write_json(tmp_path / "x", {"a": 1, "b": 0.5})
    assert (tmp_path / "x").read_text() == '{\n  "a": 1,\n  "b": 0.5\n}\n'
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "x", {"a": float("nan")})
    assert (tmp_path / "x").read_text() == '{\n  "a": 1,\n  "b": 0.5\n}\n'


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "no" / "x"
    with pytest.raises(FileNotFoundError) as error:
        write_json(path, {})
    assert error.value.filename == str(path)


def test_an_error_of_another_file_stays_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as error, atomic_write(tmp_path / "x"):
        (tmp_path / "source").read_text()
    assert error.value.filename == str(tmp_path / "source")
