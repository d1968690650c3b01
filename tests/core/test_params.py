"""A wrong value gives one line that names the key, the value and what is allowed."""

from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from mlml.core.params import Section, parse, parse_options


class Inner(Section):
    depth: Annotated[int, Field(ge=1)] = 1


class Example(Section):
    lr: Annotated[float, Field(gt=0)] = 0.5
    epochs: Annotated[int, Field(ge=1, le=100)] = 10
    flip: bool = True
    name: str = "x"
    kind: Literal["png", "svg"] = "png"
    prior: Annotated[float, Field(gt=0)] | None = None
    inner: Inner = Inner()
    parts: list[Inner] = Field(default_factory=list)


def lines(values: Any, section: type[Section] = Example) -> list[str]:
    with pytest.raises(ValueError) as error:
        parse(section, values, "train")
    assert not isinstance(error.value, ValidationError)
    return str(error.value).split("\n")


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"epoch": 3}, "train.epoch: unknown key; it takes epochs, flip, inner, kind, lr, name, parts, prior"),
        ({"lr": "1e-4"}, "train.lr: '1e-4' is not allowed; must be a valid number"),
        ({"lr": True}, "train.lr: True is not allowed; must be a valid number"),
        ({"lr": 0}, "train.lr: 0 is not allowed; must be greater than 0"),
        ({"lr": float("nan")}, "train.lr: nan is not allowed; must be a finite number"),
        ({"epochs": True}, "train.epochs: True is not allowed; must be a valid integer"),
        ({"epochs": 2.0}, "train.epochs: 2.0 is not allowed; must be a valid integer"),
        ({"epochs": 0}, "train.epochs: 0 is not allowed; must be greater than or equal to 1"),
        ({"epochs": 101}, "train.epochs: 101 is not allowed; must be less than or equal to 100"),
        ({"flip": 1}, "train.flip: 1 is not allowed; must be a valid boolean"),
        ({"name": 7}, "train.name: 7 is not allowed; must be a valid string"),
        ({"kind": "pdf"}, "train.kind: 'pdf' is not allowed; must be 'png' or 'svg'"),
        ({"prior": -1.0}, "train.prior: -1.0 is not allowed; must be greater than 0"),
        ({"inner": {"depth": 0}}, "train.inner.depth: 0 is not allowed; must be greater than or equal to 1"),
        ({"inner": {"deep": 0}}, "train.inner.deep: unknown key"),
        ({"parts": [{}, {"depth": "2"}]}, "train.parts.1.depth: '2' is not allowed; must be a valid integer"),
    ],
)
def test_one_line_names_key_value_and_what_is_allowed(values: dict[str, Any], line: str) -> None:
    assert lines(values) == [line]


def test_each_fault_has_its_line() -> None:
    messages = lines({"lr": -1, "epochs": "many", "flop": 0})
    assert [line.partition(":")[0] for line in messages] == ["train.lr", "train.epochs", "train.flop"]


@pytest.mark.parametrize("values", [[1], "lr", 3])
def test_something_else_than_a_mapping(values: Any) -> None:
    (line,) = lines(values)
    assert line.startswith(f"train: {values!r} is not allowed; must be keys and values")


def test_missing_key_and_section_without_keys() -> None:
    class Strict(Section):
        seed: int

    class Nothing(Section):
        pass

    assert lines({}, Strict) == ["train.seed: missing"]
    assert lines(None, Strict) == ["train.seed: missing"]
    assert lines({"seed": 1}, Nothing) == ["train.seed: unknown key; it takes none"]


def test_nothing_gives_the_defaults() -> None:
    assert parse(Example, None, "train") == parse(Example, {}, "train") == Example()


@given(st.integers(1, 2**53))
def test_an_integer_is_a_float_too(value: int) -> None:
    parsed = parse(Example, {"lr": value, "prior": value}, "train")
    assert type(parsed.lr) is type(parsed.prior) is float
    assert parsed.lr == parsed.prior == value


@given(st.text(max_size=20))
def test_a_fault_stays_on_its_line(text: str) -> None:
    (line,) = lines({"lr": text})
    assert line == f"train.lr: {text!r} is not allowed; must be a valid number"


def test_a_section_is_frozen() -> None:
    section = parse(Example, {"lr": 2}, "train")
    with pytest.raises(ValidationError, match="frozen"):
        section.lr = 3.0
    assert section.lr == 2


Weight = Annotated[float, Field(ge=0)]


def options(
    folder: str,
    other: int = 3,
    *,
    size: Annotated[int, Field(ge=8)] = 64,
    weight: "Weight | None" = None,
    mode: Literal["fast", "slow"] = "fast",
    must: bool,
) -> None:
    """Something with options."""


def test_options_are_the_keyword_only_arguments() -> None:
    parsed = parse_options(options, {"must": False, "weight": 2}, "d")
    assert parsed == {"size": 64, "weight": 2.0, "mode": "fast", "must": False}
    assert type(parsed["weight"]) is float


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"folder": "x"}, "d.folder: unknown key; it takes mode, must, size, weight"),
        ({"other": 1}, "d.other: unknown key; it takes mode, must, size, weight"),
        ({"size": 7}, "d.size: 7 is not allowed; must be greater than or equal to 8"),
        ({"weight": "2"}, "d.weight: '2' is not allowed; must be a valid number"),
        ({"weight": -1}, "d.weight: -1 is not allowed; must be greater than or equal to 0"),
        ({"mode": "medium"}, "d.mode: 'medium' is not allowed; must be 'fast' or 'slow'"),
    ],
)
def test_a_wrong_option(values: dict[str, Any], line: str) -> None:
    with pytest.raises(ValueError) as error:
        parse_options(options, {"must": True, **values}, "d")
    assert str(error.value) == line
    with pytest.raises(ValueError) as error:
        parse_options(options, values, "d")
    assert "d.must: missing" in str(error.value).split("\n")


def test_a_function_without_options() -> None:
    assert parse_options(lambda folder: None, None, "d") == {}
    with pytest.raises(ValueError, match=r"^d\.size: unknown key; it takes none$"):
        parse_options(lambda folder: None, {"size": 1}, "d")
