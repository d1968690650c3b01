"""Grids of parameters, and the runs that they stand for: one for each combination of values."""

import copy
import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from mlml import corruption, methods
from mlml.commands.input_files import check_readable
from mlml.core.params import DATASET, PARAMS, parse, read_sections
from mlml.model.engine import Engine
from mlml.settings import Setting
from mlml.training import recipe

# `method.options` are those that are not the defaults. So a change of a default changes what rows say that were
# recorded before: write the old value into them (paper/results).
KEYS = ["dataset", "setting", "method", "method.options", "seed", "corrupt.seed"]
# Of the ways to use the hardware, the precision alone makes another run.
PLAN = [name for name in recipe.Recipe.model_fields if name not in Engine.model_fields] + ["precision"]
KEYS += [f"train.{name}" for name in PLAN]
Grid = Mapping[str, list[Any]]

_defaults = functools.cache(methods.options_of)


class Job(NamedTuple):
    """The parameters of one run.

    Attributes:
        key: the cells of its row that say what was run, in the order of `KEYS`.
    """

    key: tuple[str, ...]
    run: recipe.Run
    recipe: recipe.Recipe
    setting: Setting
    corrupt_seed: int


def grid_of(words: Iterable[str]) -> Grid:
    """The grid of words ``name=value,value,...``.

    Raises:
        ValueError: a word has no "=", a value is no YAML, or a name is there twice.
    """
    grid: dict[str, list[Any]] = {}
    for word in words:
        name, equals, values = word.partition("=")
        name = name.removeprefix("+")
        if not equals:
            raise ValueError(f"-S {word}: must be name=value or name=value,value,...")
        if name in grid:
            raise ValueError(f"-S {name}: given twice; write {name}=value,value,...")
        try:
            grid[name] = [_parsed(value) for value in values.split(",")]
        except ValueError:
            raise ValueError(f"-S {word}: must be name=value or name=value,value,...") from None
    return grid


def read_grids(file: Path) -> list[Grid]:
    """The grids of a YAML file: a list of ``name: [value, ...]``.

    Raises:
        ValueError: the file has another form, or a name is there twice in a grid.
    """
    check_readable(file)
    try:
        grids = _parsed(file.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is no YAML file: {' '.join(str(error).split())}") from None
    if not isinstance(grids, list) or not grids or not all(map(_is_grid, grids)):
        raise ValueError(f"{file}: must be a list of grids, each of lines 'name: [value, ...]'")
    return grids


def _is_grid(grid: object) -> bool:
    return isinstance(grid, dict) and all(
        isinstance(name, str) and isinstance(values, list) and values for name, values in grid.items()
    )


def _parsed(text: str) -> Any:
    """Read YAML 1.2, as `mlml.core.params` and DVC do.

    Raises:
        ValueError: it is no YAML, or a key is there twice.
    """
    try:
        return YAML(typ="safe").load(text)
    except YAMLError as error:
        place = f"line {mark.line + 1}: " if (mark := getattr(error, "problem_mark", None)) else ""
        raise ValueError(place + (getattr(error, "problem", None) or str(error))) from None
    except RecursionError:
        raise ValueError("too many lists in each other") from None


def jobs_of(grid: Grid) -> Iterator[Job]:
    """The runs of params.yaml with every combination of a grid's values instead, the last name's changing fastest.

    Raises:
        ValueError: the working directory has no params.yaml, a parameter is unknown, or a value not allowed.
    """
    params = read_sections(Path("params.yaml"), PARAMS)
    file = Path(f"datasets/{params['dataset']}/dataset.yaml")
    training = read_sections(file, DATASET).get("training")
    for values in itertools.product(*grid.values()):
        changed = _change(params, dict(zip(grid, values, strict=True)))
        yield _job(changed, recipe.resolve(training, changed["train"], str(file)))


def _change(params: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `params` with these values."""
    if "dataset" in changes:
        raise ValueError(
            "-S dataset: the prepared data set is that of params.yaml; change it there and `dvc repro prepare`"
        )
    changed = copy.deepcopy(dict(params))
    for name, value in changes.items():
        *sections, last = name.split(".")
        place: Any = changed
        for section in sections:
            place = place.get(section) if isinstance(place, dict) else None
        if not isinstance(place, dict) or sections[:1] in (["prepare"], ["plot"]) or name == "processes":
            raise ValueError(f"-S {name}: no parameter of a run")
        if sections[:1] == ["methods"]:  # an ablation has options that params.yaml does not list
            methods.options_of(sections[-1], {last: value})
        elif last not in place:
            raise ValueError(f"-S {name}: no parameter of a run")
        place[last] = value
    return changed


def _job(params: Mapping[str, Any], plan: recipe.Recipe) -> Job:
    setting = Setting.parse(params["setting"])
    corrupt_seed = parse(corruption.CorruptParams, params["corrupt"], "corrupt").seed
    method = params["method"]
    options, defaults = methods.options_of(method, params["methods"].get(method)), _defaults(method)
    axes = {key: params[key] for key in ("method", "seed", "device", "setting")}
    run = parse(recipe.Run, {**axes, "options": options}, "")
    changed = " ".join(f"{name}={value}" for name, value in sorted(options.items()) if value != defaults[name])
    key = (
        params["dataset"],
        setting,
        run.method,
        changed,
        run.seed,
        corrupt_seed,
        *(getattr(plan, name) for name in PLAN),
    )
    text = tuple("" if cell is None else str(cell) for cell in key)
    return Job(text, run, plan, setting, corrupt_seed)
