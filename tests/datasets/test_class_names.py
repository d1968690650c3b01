"""Names of classes that would mislead."""

import pytest

from mlml.datasets.class_names import check_option, name_faults


@pytest.mark.parametrize("name", ["", "a\x1b[31mb", "two\nlines", "a\x9b", "a\u2028b", "nul\0", "\ud800", "x" * 256])
def test_names_that_are_refused(name: str) -> None:
    ((of, fault),) = name_faults([name])
    assert of == name and fault.isprintable() and len(fault) < 300


@pytest.mark.parametrize("name", ["Käse", "TV/monitor", "tench, Tinca tinca", "犬", "x" * 255, "image", "1"])
def test_names_that_are_fine(name: str) -> None:
    assert name_faults([name]) == []


def test_twins() -> None:
    assert name_faults(["a\u0308", "cat", "\u00e4", "Cat", "c\u200bat"]) == [
        ("\u00e4", "the classes 'a\\u0308' and '\\xe4' look the same; write one"),
        ("c\u200bat", "the classes 'cat' and 'c\\u200bat' look the same; write one"),
    ]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["cat", ""], "the name of a class is blank"),
        (["cat", "dog "], "'dog ' begins or ends with a space; tables are read without"),
        (["cat", "dog", "cat"], "'cat' is there twice"),
        (["a\x1b"], "the class 'a\\x1b' has a control character or line break in its name; remove it"),
        (["\u00e4", "a\u0308"], "the classes '\\xe4' and 'a\\u0308' look the same; write one"),
    ],
)
def test_names_in_options(names: list[str], message: str) -> None:
    with pytest.raises(ValueError) as error:
        check_option(names, "classes")
    assert str(error.value) == f"images.options.classes: {message}"
    check_option(["cat", "dog"], "classes")
