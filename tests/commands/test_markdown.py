from pathlib import Path

import pytest

from mlml.commands.markdown import marked, pipe_table, update


def test_a_part_is_replaced_and_the_rest_stays(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"a\n{marked('x', 'old')}\nb\n{marked('y', 'z')}")
    new = r"new \1"
    update(page, "x", new)
    assert page.read_text() == f"a\n{marked('x', new)}\nb\n{marked('y', 'z')}"


def test_missing_marks_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- x: begin -->")
    with pytest.raises(ValueError, match="x: end --> must be there once"):
        update(page, "x", "new")
    assert page.read_text() == "<!-- x: begin -->"


def test_a_table() -> None:
    rows = (row for row in [("an", 1, 2.5), ("bce", 3, "")])
    assert pipe_table(["method", "a", "b"], rows, 1).splitlines() == [
        "| method | a | b |",
        "|---|--:|--:|",
        "| an | 1 | 2.5 |",
        "| bce | 3 |  |",
    ]
