"""Reads parameters from YAML and checks them with pydantic; a wrong value gives one line.

The class of a section derives from `Section` and stands with the code that uses it.
"""

import inspect
from collections.abc import Callable, Collection, Mapping
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from ruamel.yaml import YAML, events
from ruamel.yaml.error import MarkedYAMLError, YAMLError

_S = TypeVar("_S", bound=BaseModel)

# The top-level keys of params.yaml and of a data set's dataset.yaml
AXES = {"dataset", "setting", "method", "seed", "device", "processes"}
PARAMS = AXES | {"prepare", "corrupt", "train", "plot", "methods"}
DATASET = {"archives", "images", "training"}

_MOST, _DEEPEST = 100_000, 100  # values in a YAML file, with its aliases written out; sections in sections
_SHOWN = 200  # characters of a wrong value


class Section(BaseModel):
    """Base of all parameter sections: frozen, no unknown keys, strict types (only an integer may stand for a float)."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def parse(section: type[_S], values: Any, where: str) -> _S:
    """Validate `values` as a `section`; None stands for no values.

    Args:
        where: prefix of the keys in messages, e.g. "train" or "datasets/mine/dataset.yaml: images"; empty for the top
            level.

    Raises:
        ValueError: a line for each wrong key, with its value and what is allowed.
    """
    try:
        return section.model_validate({} if values is None else values)
    except ValidationError as error:
        lines = [_message(fault, where, sorted(section.model_fields)) for fault in error.errors()]
        raise ValueError("\n".join(lines)) from None


def read_sections(file: Path, allowed: Collection[str]) -> dict[str, Any]:
    """Read the sections of a YAML file. Checks only their names; `parse` checks what is in them.

    Returns:
        the sections; asking for one that the file lacks is a ValueError, too.

    Raises:
        ValueError: there is no such file, it does not hold YAML keys and values, or a section is not allowed.
    """
    if not file.is_file():  # a pipe would wait for ever
        raise ValueError(f"{file} is {'no file' if file.exists() else 'missing'}")
    try:
        values = _load(file.read_text("utf-8"))
    except RecursionError:
        raise ValueError(f"{file}: too many lists or sections in each other") from None
    except (YAMLError, ValueError) as error:  # ValueError: no UTF-8, or no number or date that Python can hold
        raise ValueError(f"{file} is no YAML file: {_reason(error)}") from None
    if not isinstance(values, dict | None):
        raise ValueError(f"{file}: must be keys and values")
    for key in (values or {}).keys() - allowed:
        raise ValueError(f"{file}: {key}: unknown key; it takes {', '.join(sorted(allowed))}")
    sections = _Sections(values or {})
    sections.file = file
    return sections


def _reason(error: Exception) -> str:
    if isinstance(error, MarkedYAMLError) and error.problem and error.problem_mark:
        return f"line {error.problem_mark.line + 1}: {error.problem}"
    return " ".join(str(error).split())


class _Sections(dict[str, Any]):
    file: Path

    def __missing__(self, key: str) -> Any:
        raise ValueError(f"{self.file}: {key}: missing")


def _load(text: str) -> Any:
    """Read YAML 1.2 as DVC does, by its parser: in YAML 1.1 010 is 8, 12:30 is 750 and 1e-4 a text."""
    if "*" in text and _size(text) > _MOST:
        raise ValueError(f"its aliases stand for more than {_MOST:,} values; write out what they mean")
    return YAML(typ="safe").load(text)


def _size(text: str) -> float:
    """The number of values, with aliases written out: a few lines of aliases can stand for more than memory holds."""
    anchors: dict[str, float] = {}
    path: list[tuple[str, float]] = [("", 0)]  # anchor and values of each list that has begun
    for event in YAML(typ="safe").parse(text):
        size = 1.0
        if isinstance(event, events.CollectionStartEvent):
            anchors[event.anchor] = inf  # within itself
            path.append((event.anchor, 0))
            if len(path) > _DEEPEST:
                return inf
            continue
        if isinstance(event, events.CollectionEndEvent):
            anchor, size = path.pop()
            anchors[anchor] = size = size + 1
        elif isinstance(event, events.AliasEvent):
            size = anchors.get(event.anchor, 1)
        path[-1] = (path[-1][0], path[-1][1] + size)
    return path[0][1]


def parse_options(function: Callable[..., Any], values: Any, where: str) -> dict[str, Any]:
    """Validate `values` as the keyword-only arguments of `function`; returns all of them, defaults included.

    Their annotations are types that pydantic can check, e.g. ``Annotated[float, Field(ge=0)]``. Arguments that a
    `functools.partial` fixes are no options.

    Raises:
        ValueError: as `parse`.
    """
    fixed = getattr(function, "keywords", {})
    fields: Any = {
        name: (parameter.annotation, ... if parameter.default is inspect.Parameter.empty else parameter.default)
        for name, parameter in inspect.signature(function, eval_str=True).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name not in fixed
    }
    section = create_model("Options", __base__=Section, **fields)
    parsed = parse(section, values, where)
    return {name: getattr(parsed, name) for name in fields}


def _message(fault: Mapping[str, Any], where: str, allowed: list[str]) -> str:
    key = ".".join([where, *(str(part) for part in fault["loc"])]).removeprefix(".")
    if fault["type"] == "extra_forbidden":
        nested = len(fault["loc"]) > 1
        return f"{key}: unknown key" + ("" if nested else f"; it takes {', '.join(allowed) or 'none'}")
    if fault["type"] == "missing":
        return f"{key}: missing"
    if fault["type"] in ("model_type", "model_attributes_type", "dict_type"):
        return f"{key}: {_shown(fault['input'])} is not allowed; must be keys and values"
    message = fault["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    return f"{key}: {_shown(fault['input'])} is not allowed; {message[:1].lower()}{message[1:]}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
