"""What `paper.runs` is to run: grids of parameters in, one job for each combination out."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from mlml import corruption, methods
from mlml.core.params import DATASET, PARAMS, parse, read_sections
from mlml.model import hardware
from mlml.settings import Setting
from mlml.training import recipe

KEYS = ["dataset", "setting", "method", "method.options", "seed", "corrupt.seed"]
# Of how the hardware is used the precision alone makes another run.
PLAN = [name for name in recipe.Recipe.model_fields if name not in hardware.Engine.model_fields] + ["precision"]
KEYS += [f"train.{name}" for name in PLAN]
Grid = Mapping[str, list[Any]]


class Job(NamedTuple):
    """One run: the cells of its row that say what it is, and its parameters."""

    key: tuple[str, ...]
    axes: recipe.Run
    plan: recipe.Recipe
    setting: Setting
    corrupt_seed: int
    options: dict[str, Any]


def grid_of(words: Iterable[str]) -> Grid:
    """The grid of words ``name=value,value,...``."""
    grid = {}
    for word in words:
        name, equals, values = word.partition("=")
        if not equals:
            raise ValueError(f"-S {word}: must be name=value or name=value,value,...")
        grid[name.removeprefix("+")] = [yaml.safe_load(value) for value in values.split(",")]
    return grid


def read_grids(file: Path) -> list[Grid]:
    """The grids of a YAML file: a list of ``name: [value, ...]``."""
    grids = yaml.safe_load(file.read_text("utf-8"))
    good = isinstance(grids, list) and all(isinstance(grid, dict) for grid in grids)
    if not good or not all(isinstance(values, list) for grid in grids for values in grid.values()):
        raise ValueError(f"{file}: must be a list of grids, each of lines 'name: [value, ...]'")
    return grids


def jobs_of(grid: Grid) -> Iterator[Job]:
    """Every combination of a grid's values, the last name's changing fastest.

    Raises:
        ValueError: a parameter is unknown, or a value not allowed.
    """
    for values in itertools.product(*grid.values()):
        yield make_job(dict(zip(grid, map(_number, values), strict=True)))


def _number(value: Any) -> Any:
    """A number where YAML 1.1 sees a string, as in 3e-4."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def make_job(changes: Mapping[str, Any]) -> Job:
    """The run of params.yaml with these values instead."""
    params = read_sections(Path("params.yaml"), PARAMS)
    if "dataset" in changes:
        raise ValueError(
            "-S dataset: the prepared data set is that of params.yaml; change it there and `dvc repro prepare`"
        )
    for name, value in changes.items():
        *sections, last = name.split(".")
        place = params
        for section in sections:
            place = place.get(section, {})
        # A preset, such as an ablation, has options that params.yaml does not list.
        if (last not in place and sections[:1] != ["methods"]) or sections[:1] in (["prepare"], ["plot"]):
            raise ValueError(f"-S {name}: no parameter of a run")
        place[last] = value
    axes = parse(recipe.Run, {key: params[key] for key in recipe.Run.model_fields}, "")
    file = Path(f"datasets/{params['dataset']}/dataset.yaml")
    plan = recipe.resolve(read_sections(file, DATASET).get("training"), params["train"], str(file))
    setting = Setting.parse(params["setting"])
    corrupt_seed = parse(corruption.CorruptParams, params["corrupt"], "corrupt").seed
    options = methods.options_of(axes.method, params["methods"].get(axes.method))
    usual = methods.options_of(axes.method)
    own = " ".join(f"{name}={value}" for name, value in sorted(options.items()) if value != usual[name])
    key = (
        params["dataset"],
        setting,
        axes.method,
        own,
        axes.seed,
        corrupt_seed,
        *(getattr(plan, name) for name in PLAN),
    )
    text = tuple("" if cell is None else str(cell) for cell in key)
    return Job(text, axes, plan, setting, corrupt_seed, options)
