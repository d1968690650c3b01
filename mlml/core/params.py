"""Typed, frozen parameters, and the one line a wrong value gives.

Each section's class stands with the code that uses it and derives from `Section`.
"""

import inspect
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

_S = TypeVar("_S", bound=BaseModel)

# The sections of params.yaml and of a data set's file.
AXES = {"dataset", "setting", "method", "seed", "device", "processes"}
PARAMS = AXES | {"prepare", "corrupt", "train", "plot", "methods"}
DATASET = {"archives", "images", "training"}


class Section(BaseModel):
    """Base of all parameter sections: frozen, unknown keys refused, values never converted silently."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def parse(section: type[_S], values: Any, where: str) -> _S:
    """Validate `values` as a `section`.

    Args:
        where: the section's place for messages, e.g. "train" or "datasets/mine/dataset.yaml: images"; empty for
            the top level.

    Raises:
        ValueError: one line a fault, naming the key, the value and what is allowed.
    """
    try:
        return section.model_validate({} if values is None else values)
    except ValidationError as error:
        lines = [_line(fault, where, sorted(section.model_fields)) for fault in error.errors()]
        raise ValueError("\n".join(lines)) from None


def read_sections(file: Path, known: Collection[str]) -> dict[str, Any]:
    """The sections of a YAML file. A section's own class checks its keys; this checks the sections' names.

    Raises:
        ValueError: no such file, no YAML of keys and values, or an unknown section.
    """
    try:
        sections = yaml.safe_load(file.read_text("utf-8")) or {}
    except FileNotFoundError:
        raise ValueError(f"{file} is missing") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is no YAML file: {' '.join(str(error).split())}") from None
    if not isinstance(sections, dict):
        raise ValueError(f"{file}: must be keys and values")
    for key in sections.keys() - known:
        raise ValueError(f"{file}: {key}: unknown key; it takes {', '.join(sorted(known))}")
    return sections


def parse_options(function: Callable[..., Any], values: Any, where: str) -> dict[str, Any]:
    """Validate `values` as the keyword-only arguments of `function`; returns them with their defaults.

    Annotations are types that pydantic knows, e.g. ``Annotated[float, Field(ge=0)]``. Arguments that a
    `functools.partial` fixes are no options.

    Raises:
        ValueError: as `parse`; an unknown option's line lists the options there are.
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


def _line(fault: Mapping[str, Any], where: str, known: list[str]) -> str:
    key = ".".join([where, *(str(part) for part in fault["loc"])]).removeprefix(".")
    if fault["type"] == "extra_forbidden":
        nested = len(fault["loc"]) > 1
        return f"{key}: unknown key" + ("" if nested else f"; it takes {', '.join(known) or 'none'}")
    if fault["type"] == "missing":
        return f"{key}: missing"
    if fault["type"] in ("model_type", "model_attributes_type", "dict_type"):
        return f"{key}: {fault['input']!r} is not allowed; must be keys and values"
    message = fault["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    return f"{key}: {fault['input']!r} is not allowed; {message[:1].lower()}{message[1:]}"
