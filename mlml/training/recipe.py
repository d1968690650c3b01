"""Training parameters: the data set's recipe, overridden by params.yaml."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationInfo, field_validator

from mlml.core.params import Section, parse
from mlml.model.engine import Engine
from mlml.training.criterion import Criterion


class Recipe(Engine):
    """Training parameters; the defaults are the paper's (Sec. V-D).

    Attributes:
        backbone: name of a timm model.
        weights: its initial weights: "hub", "none" or a file (`mlml.model.weights.load_backbone`).
        lr: learning rate of Adam, constant.
        batch_size: most images per step.
        epochs: T_e.
        flip: whether a training image is flipped left to right with probability 0.5, drawn anew in each epoch.
        linear_init: epochs in which the linear layer is trained alone, before the others; 25 in Cole 2021.
        linear_probe: whether only the linear layer is trained, on features that the backbone computes once in
            evaluation mode; images are not flipped.
        prior: expected number of present labels per image; None: unknown.
        select_by: what the best epoch is chosen by; None: see `mlml.training.criterion.choose`.
    """

    backbone: str = "resnet50.tv_in1k"
    weights: str = "hub"
    lr: Annotated[float, Field(gt=0)] = 1e-5
    batch_size: Annotated[int, Field(ge=1, le=1_000_000)] = 16
    epochs: Annotated[int, Field(ge=1, le=100_000)] = 10
    flip: bool = True
    linear_init: Annotated[int, Field(ge=0, le=100_000)] = 0
    linear_probe: bool = False
    prior: Annotated[float, Field(gt=0)] | None = None
    select_by: Criterion | None = None

    @field_validator("linear_probe")
    @classmethod
    def _without_linear_init(cls, value: bool, others: ValidationInfo) -> bool:
        if value and others.data.get("linear_init"):
            raise ValueError("must be false after linear_init, which trains the same layer first")
        return value


class Run(Section):
    """Method, seed, device and setting of a run: the axes of params.yaml that training reads.

    Attributes:
        method: one of `mlml.methods.names()`.
        options: the method's own options; those not named keep their defaults.
        seed: of training.
        device: see `mlml.runtime.device.device_for`.
        setting: how the observed labels were made, see `mlml.settings.Setting`; "as_is": that is not known.
    """

    method: str
    options: dict[str, Any] = Field(default_factory=dict)
    seed: Annotated[int, Field(ge=0, lt=2**32)]
    device: str
    setting: str = "as_is"


def check_weights(recipe: Recipe) -> None:
    """Check that a file of weights is there, and where DVC notices that it changes.

    Raises:
        ValueError: it is not.
    """
    if recipe.weights in ("hub", "none"):
        return
    path = Path(recipe.weights)
    if path.parts[:1] != ("weights",) or ".." in path.parts:
        raise ValueError(f"train.weights: {recipe.weights!r} is not allowed; must be hub, none or a file in weights/")
    if not path.is_file():
        raise ValueError(f"train.weights: {recipe.weights} is missing; bring the file, or choose hub or none")


def resolve(dataset: Mapping[str, Any] | None, train: Mapping[str, Any] | None, file: str) -> Recipe:
    """The recipe of a run: each key from `train` unless null there, else from the data set, else the default.

    Args:
        dataset: section ``training`` of the data set's file.
        train: section ``train`` of params.yaml.
        file: the data set's file, for messages.

    Raises:
        ValueError: one line per fault, naming the key, the value and what is allowed.
    """
    parse(Recipe, dataset, f"{file}: training")
    if not isinstance(train, Mapping | None):
        raise ValueError(f"train: {train!r} is not allowed; must be keys and values")
    chosen = {key: value for key, value in (train or {}).items() if value is not None}
    return parse(Recipe, {**(dataset or {}), **chosen}, "train")
