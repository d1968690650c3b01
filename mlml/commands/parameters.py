"""All faults of a run's parameters at once: those of params.yaml and of the data set's dataset.yaml."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mlml import corruption, datasets, methods, plots
from mlml.core.params import DATASET, PARAMS, parse, read_sections
from mlml.datasets.prepare import PrepareParams
from mlml.download.archives import Download
from mlml.model.classifier import check_backbone
from mlml.runtime.device import device_for
from mlml.runtime.launch import check_processes
from mlml.settings import Setting
from mlml.training import recipe


def faults(params: Mapping[str, Any]) -> list[str]:
    """A line for each fault; some faults hide others.

    Args:
        params: the content of params.yaml; the data set is there.
    """
    if missing := sorted(PARAMS - params.keys()):
        return [f"params.yaml: {key}: missing" for key in missing]
    for key in ("methods", "train"):
        if not isinstance(params[key], dict):
            return [f"{key}: {params[key]!r} is not allowed; must be keys and values"]
    file = Path(f"datasets/{params['dataset']}/dataset.yaml")
    sections = read_sections(file, DATASET)
    looks = [*_data_set(file, sections), *_run(params, file, sections.get("training"))]
    return [fault for look in looks if (fault := fault_of(look))]


def fault_of(look: Callable[[], object]) -> str:
    """The message of the ValueError that `look` raises, if it does."""
    try:
        look()
    except ValueError as error:
        return str(error)
    return ""


def _options(name: str, options: Any) -> None:
    if name not in methods.names():
        raise ValueError(f"methods: {name}: unknown key; there is no such method")
    methods.options_of(name, options)


def _data_set(file: Path, sections: Mapping[str, Any]) -> list[Callable[[], object]]:
    def images() -> None:
        layout = parse(datasets.Layout, sections["images"], f"{file}: images")
        datasets.options_of(layout.reader, layout.options)

    return [lambda: parse(Download, {"archives": sections["archives"]}, str(file)), images]


def _run(params: Mapping[str, Any], file: Path, training: Any) -> list[Callable[[], object]]:
    axes = {key: params[key] for key in ("seed", "device", "setting")}

    def train() -> None:
        plan = recipe.resolve(training, params["train"], str(file))
        recipe.check_weights(plan)
        if params["train"].get("backbone") is not None:  # importing timm takes as long as all else
            check_backbone(plan.backbone)

    return [
        lambda: Setting.parse(params["setting"]),
        lambda: methods.options_of(params["method"]),
        *(partial(_options, name, options) for name, options in params["methods"].items()),
        train,
        lambda: parse(recipe.Run, {**axes, "method": ""}, ""),
        lambda: parse(PrepareParams, params["prepare"], "prepare"),
        lambda: parse(corruption.CorruptParams, params["corrupt"], "corrupt"),
        lambda: parse(plots.PlotParams, params["plot"], "plot"),
        lambda: device_for(params["device"]),
        lambda: check_processes(params["processes"]),
    ]
