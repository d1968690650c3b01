"""Reads parameters from YAML and checks them with pydantic; a wrong value gives one line.

The class of a section derives from `Section` and stands with the code that uses it.
"""

import inspect
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

_S = TypeVar("_S", bound=BaseModel)

# The top-level keys of params.yaml and of a data set's dataset.yaml
AXES = {"dataset", "setting", "method", "seed", "device", "processes"}
PARAMS = AXES | {"prepare", "corrupt", "train", "plot", "methods"}
DATASET = {"archives", "images", "training"}


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

    Raises:
        ValueError: there is no such file, it does not hold YAML keys and values, or a section is not allowed.
    """
    try:
        sections = yaml.safe_load(file.read_text("utf-8")) or {}
    except FileNotFoundError:
        raise ValueError(f"{file} is missing") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is no YAML file: {' '.join(str(error).split())}") from None
    if not isinstance(sections, dict):
        raise ValueError(f"{file}: must be keys and values")
    for key in sections.keys() - allowed:
        raise ValueError(f"{file}: {key}: unknown key; it takes {', '.join(sorted(allowed))}")
    return sections


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
        return f"{key}: {fault['input']!r} is not allowed; must be keys and values"
    message = fault["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    return f"{key}: {fault['input']!r} is not allowed; {message[:1].lower()}{message[1:]}"
