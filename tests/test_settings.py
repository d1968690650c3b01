from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlml.settings import Setting


@pytest.mark.parametrize(
    ("text", "kind", "rate"),
    [
        ("fol", "fol", None),
        ("spl", "spl", None),
        ("as_is", "as_is", None),
        ("pol_02", "pol", Fraction(1, 5)),
        ("ppl_0125", "ppl", Fraction(1, 8)),
    ],
)
def test_parse(text: str, kind: str, rate: Fraction | None) -> None:
    assert Setting.parse(text) == Setting(kind, rate)
    assert str(Setting(kind, rate)) == text


def test_trailing_zero_is_the_same_setting() -> None:
    assert str(Setting.parse("pol_020")) == "pol_02"


@given(st.sampled_from(["pol", "ppl"]), st.integers(1, 6), st.data())
def test_parse_and_str_are_inverse(kind: str, places: int, data: st.DataObject) -> None:
    setting = Setting(kind, Fraction(data.draw(st.integers(1, 10**places - 1)), 10**places))
    assert Setting.parse(str(setting)) == setting


@pytest.mark.parametrize(
    "text", ["", "pol", "pol_", "pol_2", "pol_1", "pol_0", "pol_00", "pol_0.2", "spl_02", "fol_01", "ppl_-02", "POL_02"]
)
def test_no_setting(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        Setting.parse(text)
    assert repr(text) in str(caught.value)
    assert "pol_02 is 0.2" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "rate"),
    [("fol", Fraction(1, 2)), ("pol", None), ("pol", Fraction(1)), ("ppl", Fraction(1, 3)), ("xyz", None)],
)
def test_no_such_rule(kind: str, rate: Fraction | None) -> None:
    with pytest.raises(ValueError, match="no setting"):
        Setting(kind, rate)
