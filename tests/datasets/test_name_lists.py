"""Lists of names in a cell, and names that are rather lists."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlml.datasets.name_lists import split, suspicious

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


def judged(*names: str, separator: str = ";") -> tuple[list[str], list[str]]:
    """The faults and remarks on these classes."""
    faults, notes = suspicious({name: f"row {i}" for i, name in enumerate(names, 2)}, separator)
    return [f"{place}: {text}" for place, text in faults], notes


@pytest.mark.parametrize("sign", [",", "|", " ", "/", " & ", "+", "_", "-", ":"])
def test_a_name_made_of_other_names(sign: str) -> None:
    faults, notes = judged("cat", "dog", f"cat{sign}dog")
    assert len(faults) == 1 and notes == []
    assert faults[0].startswith(f"row 4: 'cat{sign}dog' looks like several classes; set images.options.separator: ")
    assert faults[0].endswith("instead, or if it is one class, name all classes in images.options.classes")
    assert judged("cat", "dog", f"cat{sign}dog", separator=sign.strip() or sign) == ([], [])


def test_combinations_alone() -> None:
    assert [fault[:15] for fault in judged("cat|dog", "dog|cow")[0]] == ["row 2: 'cat|dog", "row 3: 'dog|cow"]
    assert judged("traffic light", "traffic sign", "sign", "t-shirt", "TV/monitor") == ([], [])
    for sign, names in ((",", ["tench, Tinca tinca", "cow, Bos taurus"]), (" ", ["cat dog", "dog cow", "cow cat"])):
        found = f"{len(names)} names of classes hold {sign!r}, as {names[0]!r}"
        remark = f"{found}; if it separates classes, set images.options.separator: {sign!r}"
        assert judged("goldfish", *names, *(["traffic light"] if sign == "," else [])) == ([], [remark])


@pytest.mark.parametrize("name", ["NaN", "None", "null", "n/a", "-", '"cat"', "'cat'"])
def test_words_that_are_no_names(name: str) -> None:
    faults, notes = judged("dog", name)
    assert len(faults) == 1 and faults[0].startswith("row 3: ") and notes == []


def test_a_word_for_none() -> None:
    assert judged("cat", "No Finding") == (
        [],
        ["class 'No Finding': if it says that no class is present, set images.options.none: No Finding"],
    )
