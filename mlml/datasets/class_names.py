"""Names of classes that would mislead: blank, with control characters, or twice the same to the eye."""

import re
import unicodedata
from collections.abc import Iterable, Sequence

from mlml.datasets.text_file import quoted

CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
LONGEST = 255  # characters


def name_fault(name: str) -> str | None:
    """What is wrong with the name of a class, if anything is."""
    if not name:
        return "the name of a class is blank"
    if CONTROL.search(name):
        return f"the class {quoted(name)} has a control character or line break in its name; remove it"
    if len(name) > LONGEST:
        return f"the class {quoted(name)} has a name of more than {LONGEST} characters"
    return None


def twins(names: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of different names that look the same: they differ in Unicode form or characters without width."""
    first: dict[str, str] = {}
    pairs = [(first.setdefault(_seen(name), name), name) for name in names]
    return [(one, other) for one, other in pairs if one != other]


def check_option(names: Sequence[str], option: str) -> None:
    """Check names of classes or columns that dataset.yaml lists.

    Raises:
        ValueError: one is blank, begins or ends with a space, or is there twice.
    """
    for i, name in enumerate(names):
        fault = name_fault(name.strip())
        if not fault and name != name.strip():
            fault = f"{quoted(name)} begins or ends with a space; tables are read without"
        if not fault and name in names[:i]:
            fault = f"{quoted(name)} is there twice"
        if fault:
            raise ValueError(f"images.options.{option}: {fault}")
    for one, other in twins(names):
        raise ValueError(f"images.options.{option}: {one!a} and {other!a} look the same; write one")


def _seen(name: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFC", name) if unicodedata.category(c) != "Cf")
