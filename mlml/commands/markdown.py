"""Tables in Markdown, and the part of a page that a command writes."""

import re
from collections.abc import Iterable
from pathlib import Path

from mlml.datasets.files.regular_files import check_file


def pipe_table(header: Iterable[object], rows: Iterable[Iterable[object]], text_columns: int) -> str:
    """A Markdown table whose first `text_columns` columns are text and whose others are numbers."""
    header = list(header)
    lines = [f"| {' | '.join(map(str, header))} |", "|---" * text_columns + "|--:" * (len(header) - text_columns) + "|"]
    return "\n".join(lines + [f"| {' | '.join(map(str, row))} |" for row in rows])


def marked(part: str, text: str) -> str:
    """`text` between the marks of a part of a page."""
    return f"<!-- {part}: begin -->\n{text}\n<!-- {part}: end -->"


def update(page: Path, part: str, text: str) -> None:
    """Replace what stands between the marks of `part` in `page` by `text`.

    Raises:
        ValueError: there is no such file, or it does not have the marks exactly once.
    """
    check_file(page, "a page with marks")
    whole = page.read_text("utf-8")
    pattern = f"(?s)<!-- {re.escape(part)}: begin -->.*<!-- {re.escape(part)}: end -->"
    new, count = re.subn(pattern, lambda _: marked(part, text), whole)
    if count != 1:
        raise ValueError(f"{page}: the marks <!-- {part}: begin --> and <!-- {part}: end --> must be there once")
    page.write_text(new, "utf-8")
