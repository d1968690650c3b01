"""Lists of names in a cell, and names that are rather lists."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlml.datasets.tables.name_lists import split, suspicious

NAMES = st.lists(st.text(min_size=1, max_size=6).map(str.strip).filter(bool), max_size=5, unique=True)


@given(NAMES)
def test_as_programs_write_lists(names: list[str]) -> None:
    for text in (json.dumps(names), json.dumps(names, ensure_ascii=False), repr(names), f" {names!r} "):
        assert split(text, ";") == names
    assert split(json.dumps({"choices": names}), ";") == names


@pytest.mark.parametrize(
    ("cell", "names"),
    [
        ("cat;dog; cat ;;", ["cat", "dog"]),
        ("", []),
        ("[]", []),
        ("['cat',]", ["cat"]),
        ("(other)", ["(other)"]),
        ("[a] b", ["[a] b"]),
    ],
)
def test_names(cell: str, names: list[str]) -> None:
    assert split(cell, ";") == names


@pytest.mark.parametrize(
    "cell",
    [
        "[cat, dog]",
        "[1, 2]",
        '["cat", null]',
        '{"choices": "cat"}',
        '{"cat": 1, "dog": 0}',
        '[{"rectanglelabels": ["cat"]}]',
        "{'cat', 'dog'}",
        "('cat', 'dog')",
        str(np.array(["cat", "dog"])),  # ['cat' 'dog'], which Python reads as one string
        "['cat', 'dog'] + ['cow']",
        "['cat\ndog']",
        "[" * 99_999 + "]",
    ],
)
def test_other_lists_are_refused(cell: str) -> None:
    with pytest.raises(ValueError, match=r"is no list that can be read; write its names as 'cat;dog', or if it is one"):
        split(cell, ";")
    assert split("[a];{b}", ";", {"[a]", "{b}"}) == ["[a]", "{b}"]


def judged(*names: str, separator: str = ";") -> list[str]:
    return [f"{name}: {text}" for name, text in suspicious(names, separator)]


@pytest.mark.parametrize("sign", [",", "|", " ", "/", " & ", "+", "_", "-", ":"])
def test_a_name_made_of_other_names(sign: str) -> None:
    name = f"cat{sign}dog"
    (fault,) = judged("cat", "dog", name)
    assert fault.startswith(f"{name}: {name!r} looks like several classes; set images.options.separator: ")
    assert fault.endswith("instead, or if it is one class, name all classes in images.options.classes")
    assert judged("cat", "dog", name, separator=sign.strip() or sign) == []


def test_combinations_alone() -> None:
    assert [fault[:7] for fault in judged("cat|dog", "dog|cow")] == ["cat|dog", "dog|cow"]
    assert judged("traffic light", "traffic sign", "sign", "t-shirt", "TV/monitor", "tench, Tinca tinca") == []


@pytest.mark.parametrize("name", ["NaN", "None", "null", "n/a", "-", '"cat"', "'cat'"])
def test_words_that_are_no_names(name: str) -> None:
    (fault,) = judged("dog", name)
    assert fault.startswith(f"{name}: ")
