"""A made part of a page, between two marks."""

import re
from pathlib import Path


def marked(name: str, text: str) -> str:
    """`text` between the marks of the part called `name`."""
    return f"<!-- {name}: begin -->\n{text}\n<!-- {name}: end -->"


def update(file: Path, name: str, text: str) -> None:
    """Put `text` between the marks of the part called `name` in `file`.

    Raises:
        ValueError: the marks are not there.
    """
    whole = file.read_text("utf-8")
    new, count = re.subn(f"(?s)<!-- {name}: begin -->.*<!-- {name}: end -->", lambda _: marked(name, text), whole)
    if count != 1:
        raise ValueError(f"{file}: the marks <!-- {name}: begin --> and <!-- {name}: end --> must be there once")
    file.write_text(new, "utf-8")
