"""Lists of class names in one cell: as text with a separator, as JSON or Python writes them, and what looks like one.

Label Studio writes ``{"choices":["cat","dog"]}``, pandas ``['cat', 'dog']``.
"""

import ast
import json
import re
from collections import Counter
from collections.abc import Collection, Container
from contextlib import suppress

from mlml.core.errors import quoted

_STRING = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_PYTHON = re.compile(rf"\[\s*(?:{_STRING}\s*(?:,\s*{_STRING}\s*)*(?:,\s*)?)?\]")
_QUOTES = re.compile(r"""(['"]).*\1""", re.DOTALL)
_MISSING = frozenset(("nan", "na", "n/a", "none", "null", "<na>", "#n/a", "-", "?"))  # case-folded
_SURE = ",;|"  # signs that separate names more often than they are part of one
_UNSURE = " /&+_-:"
_ONE_CLASS = "or if it is one class, name all classes in images.options.classes"


def split(cell: str, separator: str, known: Container[str] = ()) -> list[str]:
    """The names in a cell, each once.

    Args:
        known: names of classes that are taken as they are.

    Raises:
        ValueError: the cell has the brackets of a list, but is no list of strings.
    """
    text = cell.strip()
    names = [name for part in text.split(separator) if (name := part.strip())]
    if _bracketed(text) and not all(name in known for name in names):
        names = [name for part in _literal(text, separator) if (name := part.strip())]
    return list(dict.fromkeys(names))


def _bracketed(text: str) -> bool:
    ends = text[:1] + text[-1:]
    return ends in ("[]", "{}") or (ends == "()" and ("'" in text or '"' in text))


def _literal(text: str, separator: str) -> list[str]:
    value = None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        if _PYTHON.fullmatch(text):  # unlike NumPy's ['cat' 'dog'], which Python takes for one string
            with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
                value = ast.literal_eval(text)
    if isinstance(value, dict) and list(value) == ["choices"]:
        value = value["choices"]
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        example = separator.join(("cat", "dog"))
        raise ValueError(f"{quoted(text)} is no list that can be read; write its names as {example!r}, {_ONE_CLASS}")
    return value


def suspicious(names: Collection[str], separator: str) -> list[tuple[str, str]]:
    """(name, message) of the classes that are rather lists of classes, or no names.

    Args:
        separator: the one at which the names were split.
    """
    faults = {name: f"{quoted(name)} has quotes around it; remove them" for name in names if _QUOTES.fullmatch(name)}
    for sign in _SURE + _UNSURE:
        if sign == separator:
            continue
        parts = {name: {part for each in name.split(sign) if (part := each.strip())} for name in names if sign in name}
        times = Counter(part for each in parts.values() for part in each)
        known = {part for part, count in times.items() if part in names or count > 1}
        for name, each in parts.items():
            if (len(each) > 1 and all(part in names for part in each)) or (sign in _SURE and each & known):
                remedy = f"set images.options.separator: {sign!r}, or write {separator!r} instead"
                faults.setdefault(name, f"{quoted(name)} looks like several classes; {remedy}")
    for name in names:
        if name.casefold() in _MISSING:
            remedy = "leave the cell blank, set images.options.none if it says that no class is present"
            faults[name] = f"{name!r} is a word for a missing value; {remedy}"
    return [(name, f"{fault}, {_ONE_CLASS}") for name, fault in faults.items()]
