"""Grids of parameters, and the runs that they stand for: one for each combination of values."""

import copy
import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from mlml import corruption, methods
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
        ValueError: a word has no "=", or a value is no YAML.
    """
    grid: dict[str, list[Any]] = {}
    for word in words:
        name, equals, values = word.partition("=")
        if not equals:
            raise ValueError(f"-S {word}: must be name=value or name=value,value,...")
        try:
            grid[name.removeprefix("+")] = [yaml.safe_load(value) for value in values.split(",")]
        except yaml.YAMLError:
            raise ValueError(f"-S {word}: must be name=value or name=value,value,...") from None
    return grid


def read_grids(file: Path) -> list[Grid]:
    """The grids of a YAML file: a list of ``name: [value, ...]``.

    Raises:
        ValueError: the file has another form.
    """
    try:
        grids = yaml.safe_load(file.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is no YAML file: {' '.join(str(error).split())}") from None
    valid = isinstance(grids, list) and all(isinstance(grid, dict) for grid in grids)
    if not valid or not all(isinstance(values, list) for grid in grids for values in grid.values()):
        raise ValueError(f"{file}: must be a list of grids, each of lines 'name: [value, ...]'")
    return list(grids)


def jobs_of(grid: Grid) -> Iterator[Job]:
    """The runs of params.yaml with every combination of a grid's values instead, the last name's changing fastest.

    Raises:
        ValueError: the working directory has no params.yaml, a parameter is unknown, or a value not allowed.
    """
    params = read_sections(Path("params.yaml"), PARAMS)
    file = Path(f"datasets/{params['dataset']}/dataset.yaml")
    training = read_sections(file, DATASET).get("training")
    for values in itertools.product(*grid.values()):
        changed = _change(params, dict(zip(grid, map(_number, values), strict=True)))
        yield _job(changed, recipe.resolve(training, changed["train"], str(file)))


def _number(value: Any) -> Any:
    """A number where YAML 1.1 sees a string, as in 3e-4."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


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
