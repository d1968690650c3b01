import io
import logging
from contextlib import redirect_stderr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlml.core.progress import log_to_terminal, progress


class Terminal(io.StringIO):
    """A terminal of which one can see the lines."""

    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        """What is written, after a carriage return over what was there."""
        shown = []
        for line in self.getvalue().split("\n"):
            cells = ""
            for piece in line.split("\r"):
                cells = piece + cells[len(piece) :]
            shown.append(cells.rstrip())
        return shown


def test_a_bar_in_a_terminal_with_messages_above_it() -> None:
    with redirect_stderr(Terminal()) as terminal, progress("features", 4, "images") as advance:
        advance(1, loss="0.5")
        logging.getLogger("mlml.x").info("a message")
        advance(3, loss="0.25")
    above, bar, *rest = terminal.lines()
    assert above == "a message"
    assert bar.startswith("features: 100%|") and "| 4/4 [" in bar and bar.endswith(", loss=0.25]")
    assert rest == [""]


def test_a_message_from_outside_is_escaped() -> None:
    with redirect_stderr(io.StringIO()) as log:
        logging.getLogger("mlml.x").info("the server answers \x1b]0;title\x07")
    assert log.getvalue() == "the server answers \\x1b]0;title\\x07\n"


def test_a_bar_that_vanishes_and_one_that_is_not_shown() -> None:
    with redirect_stderr(Terminal()) as terminal, progress("epoch", 2, "steps", log=False) as advance:
        advance(2)
        assert terminal.lines()[0].startswith("epoch: ")
    assert terminal.lines() == [""]
    with redirect_stderr(Terminal()) as terminal, progress("features", 2, "images", shown=False) as advance:
        advance(2)
    assert terminal.getvalue() == ""


def test_a_total_that_is_not_known_yet() -> None:
    with redirect_stderr(io.StringIO()) as log, progress("features", 0, "images") as advance:
        advance(3)
        advance(1, 4)
    assert log.getvalue() == "features: 100% of 4 images\n"


def test_a_log_has_a_line_every_tenth() -> None:
    with redirect_stderr(io.StringIO()) as log, progress("check", 2000, "images", done=160) as advance:
        for _ in range(46):
            advance(40)
    assert log.getvalue().splitlines() == [f"check: {tenth}0% of 2,000 images" for tenth in range(1, 11)]


@given(st.lists(st.integers(0, 50), min_size=1).filter(any))
def test_a_log_has_ten_lines_at_most_and_the_last_one_says_all(steps: list[int]) -> None:
    with redirect_stderr(io.StringIO()) as log, progress("x", sum(steps), "B") as advance:
        for step in steps:
            advance(step)
    lines = log.getvalue().splitlines()
    assert 1 <= len(lines) <= 10
    assert lines[-1] == f"x: 100% of {sum(steps):,} bytes"


def test_no_lines_where_something_else_is_printed() -> None:
    with redirect_stderr(io.StringIO()) as log, progress("epoch", 2, "steps", log=False) as advance:
        advance(2)
    assert log.getvalue() == ""


def test_a_total_that_grows() -> None:
    with redirect_stderr(io.StringIO()) as log, progress("features", 0, "images") as advance:
        advance(0, 10)
        advance(10)
        advance(0, 30)
        advance(30)
    assert log.getvalue().splitlines() == ["features: 100% of 10 images", "features: 100% of 40 images"]


def test_nothing_is_shown_before_a_command_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger("mlml")
    monkeypatch.setattr(logger, "handlers", [])
    logger.setLevel(logging.NOTSET)
    try:
        with redirect_stderr(Terminal()) as terminal, progress("features", 2, "images") as advance:
            advance(2)
            logger.info("a message")
        assert terminal.getvalue() == ""
    finally:
        log_to_terminal()
    log_to_terminal()  # twice is once
    with redirect_stderr(Terminal()) as terminal:
        logger.info("a message")
    assert terminal.getvalue() == "a message\n"
