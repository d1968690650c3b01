"""Names of classes that would mislead: blank, with control characters, or twice the same to the eye."""

import re
import unicodedata
from collections.abc import Collection, Sequence

from mlml.core.errors import quoted

CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
LONGEST = 255  # characters


def name_faults(names: Collection[str]) -> list[tuple[str, str]]:
    """(name, message) of the names that are blank, too long, have control characters, or look like an earlier one."""
    faults: list[tuple[str, str]] = []
    first: dict[str, str] = {}
    for name in names:
        if not _seen(name):
            faults.append((name, "the name of a class is blank"))
        elif CONTROL.search(name):
            text = f"the class {quoted(name)} has a control character or line break in its name; remove it"
            faults.append((name, text))
        elif len(name) > LONGEST:
            faults.append((name, f"the class {quoted(name)} has a name of more than {LONGEST} characters"))
        elif (other := first.setdefault(_seen(name), name)) != name:
            faults.append((name, f"the classes {other!a} and {name!a} look the same; write one"))
    return faults


def check_option(names: Sequence[str], option: str) -> None:
    """Check names of classes or columns that dataset.yaml lists.

    Raises:
        ValueError: as `name_faults`, or one begins or ends with a space, or is there twice.
    """
    faults = [text for _, text in name_faults(names)]
    faults += [
        f"{quoted(name)} begins or ends with a space; tables are read without" for name in names if name != name.strip()
    ]
    faults += [f"{quoted(name)} is there twice" for i, name in enumerate(names) if name in names[:i]]
    for fault in faults[:1]:
        raise ValueError(f"images.options.{option}: {fault}")


def _seen(name: str) -> str:
    """What differs only in Unicode form, characters without width or spaces around it is the same to the eye."""
    return "".join(c for c in unicodedata.normalize("NFC", name) if unicodedata.category(c) != "Cf").strip(" ")
