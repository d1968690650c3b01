"""A wrong value gives one line that names the key, the value and what is allowed."""

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import dvc.utils.serialize
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from mlml.core.params import Section, parse, parse_options, read_sections


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


def test_a_long_value_is_cut() -> None:
    (line,) = lines({"lr": list(range(10**5))})
    assert (
        len(line) < 300
        and line.startswith("train.lr: [0, 1, 2")
        and line.endswith("... is not allowed; must be a valid number")
    )


def sections(folder: Path, content: str | bytes) -> dict[str, Any]:
    file = folder / "params.yaml"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_sections(file, ["a", "b", "c"])


BOMB = "a:\n  - &x0 [1, 1]\n" + "".join(f"  - &x{i} [{', '.join([f'*x{i - 1}'] * 9)}]\n" for i in range(1, 30))
FILES: dict[str, tuple[str | bytes, str]] = {
    "list": ("[1, 2]", ": must be keys and values"),
    "text": ("a", ": must be keys and values"),
    "another key": ("d: 1", ": d: unknown key; it takes a, b, c"),
    "key without text": ("1: 1", ": 1: unknown key; it takes a, b, c"),
    "key that is a list": ("? {a: b}\n: 1", " is no YAML file: line 1: found unhashable key"),
    "twice": ("a: 1\na: 2", ' is no YAML file: line 2: found duplicate key "a" with value "2"'),
    "tab": ("a:\n\tb: 1", " is no YAML file: line 2: found character '\\t'"),
    "binary": (bytes(range(256)), " is no YAML file: 'utf-8' codec"),
    "zero bytes": ("a: \0", " is no YAML file: unacceptable character"),
    "utf-16": ("a: 1".encode("utf-16"), " is no YAML file: 'utf-8' codec can't decode byte 0xff in position 0"),
    "two documents": ("a: 1\n---\na: 2", " is no YAML file: line 2: but found another document"),
    "object": ("a: !!python/object/apply:os.getcwd []", " is no YAML file: line 1: could not determine a constructor"),
    "nested": ("a: " + "[" * 5000 + "]" * 5000, ": too many lists or sections in each other"),
    "nested aliases": ("a: &x 1\nb: *x\nc: " + "[" * 5000, " is no YAML file: its aliases stand for more than 100,000"),
    "bomb": (BOMB, " is no YAML file: its aliases stand for more than 100,000 values; write out what they mean"),
    "alias in itself": ("a: &x [*x]", " is no YAML file: its aliases stand for more than 100,000"),
    "no alias": ("a: *x", " is no YAML file: line 1: found undefined alias"),
    "long number": ("a: " + "9" * 5000, " is no YAML file: Exceeds the limit"),
    "no date": ("a: 2001-99-99", " is no YAML file: month must be in 1..12"),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_of_another_form(tmp_path: Path, kind: str) -> None:
    content, fault = FILES[kind]
    with pytest.raises(ValueError) as error:
        sections(tmp_path, content)
    assert str(error.value).startswith(f"{tmp_path / 'params.yaml'}{fault}")
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_or_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, fault in (("none", "is missing"), ("pipe", "is no file"), ("", "is no file")):
        with pytest.raises(ValueError) as error:
            read_sections(tmp_path / name, [])
        assert str(error.value) == f"{tmp_path / name} {fault}"


def test_a_section_that_is_not_there(tmp_path: Path) -> None:
    empty = sections(tmp_path, "")
    assert empty == {} and empty.get("a") is None
    with pytest.raises(ValueError, match=r"params\.yaml: a: missing$"):
        empty["a"]


def test_values_are_those_that_dvc_reads(tmp_path: Path) -> None:
    """YAML 1.2: in 1.1 some of these are other numbers, texts or booleans."""
    text = "a: [1e-4, 010, 1:30, off, yes, 0o10, 0x10, 1_000, .5, -0.0, ~, 2001-01-01, '010']\nb: &x {c: 1}\nc: *x"
    assert sections(tmp_path, text) == dvc.utils.serialize.parse_yaml(text, "x")
    assert sections(tmp_path, "a: [1e-4, 010, off]") == {"a": [0.0001, 10, "off"]}
