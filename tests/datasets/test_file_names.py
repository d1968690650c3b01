"""Names of files that are nearly the same have one form; control characters do not reach the terminal."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mlml.datasets.file_names import comparable, is_picture, is_utf8, shown


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.JPG", "a.jpg"),
        (" A b.Jpeg ", "A b.jpeg"),
        ("Ka\u0308se.png", "K\u00e4se.png"),
        ("K\udce4se.png", "K\u00e4se.png"),  # in Latin-1 on disk
        ("a.TXT", "a.TXT"),
        ("2020.01.JPG", "2020.01.jpg"),
        ("JPG", "JPG"),
    ],
)
def test_the_form_of_a_name(name: str, form: str) -> None:
    assert comparable(name) == form


def test_pictures_by_their_names() -> None:
    names = ("a.jpg", "a.HEIC", "a.tif ", "._a.jpg", ".jpg", "a.xml", "jpg")
    assert [is_picture(name) for name in names] == [True] * 3 + [False] * 4


def test_names_in_messages() -> None:
    assert [shown(name) for name in ("a b.jpg", "Käse", "a\nb", "\x1b[2J", "a\u202e")] == [
        "a b.jpg",
        "Käse",
        "'a\\nb'",
        "'\\x1b[2J'",
        "'a\\u202e'",
    ]


@given(st.text())
@example("a\udcff")
def test_any_name(name: str) -> None:
    assert shown(name).isprintable()
    assert comparable(comparable(name)) == comparable(name) or not is_utf8(name)
    assert is_utf8(name) == (name == name.encode("utf-8", "ignore").decode())
