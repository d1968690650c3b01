from pathlib import Path

import pytest

from paper import marks


def test_a_part_is_replaced_and_the_rest_stays(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"a\n{marks.marked('x', 'old')}\nb\n{marks.marked('y', 'z')}")
    new = r"new \1"
    marks.update(page, "x", new)
    assert page.read_text() == f"a\n{marks.marked('x', new)}\nb\n{marks.marked('y', 'z')}"


def test_missing_marks_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- x: begin -->")
    with pytest.raises(ValueError, match="x: end --> must be there once"):
        marks.update(page, "x", "new")
    assert page.read_text() == "<!-- x: begin -->"
