from typing import Any

import pytest

from mlml.core.params import parse
from mlml.training.recipe import Recipe, Run, resolve

FILE = "datasets/mine/dataset.yaml"


def test_defaults_are_the_papers() -> None:
    options = {"lr": 1e-5, "batch_size": 16, "epochs": 10, "flip": True, "linear_init": 0, "prior": None}
    assert resolve(None, None, FILE) == Recipe(backbone="resnet50.tv_in1k", weights="hub", **options)


def test_params_override_the_data_set_which_overrides_the_default() -> None:
    recipe = resolve({"lr": 0.1, "epochs": 3, "flip": False}, {"lr": 0.2, "epochs": None, "batch_size": 8}, FILE)
    assert (recipe.lr, recipe.epochs, recipe.flip, recipe.batch_size) == (0.2, 3, False, 8)


@pytest.mark.parametrize(
    ("dataset", "train", "line"),
    [
        ({}, {"lr": -1}, "train.lr: -1 is not allowed; must be greater than 0"),
        ({}, 3, "train: 3 is not allowed; must be keys and values"),
        ([], {}, f"{FILE}: training: [] is not allowed; must be keys and values"),
        ({}, {"linear_init": -1}, "train.linear_init: -1 is not allowed; must be greater than or equal to 0"),
        ({"batch_size": 0}, {}, f"{FILE}: training.batch_size: 0 is not allowed; must be greater than or equal to 1"),
        ({"rate": 1}, {}, f"{FILE}: training.rate: unknown key; it takes {', '.join(sorted(Recipe.model_fields))}"),
    ],
)
def test_a_wrong_value_names_its_place(dataset: Any, train: Any, line: str) -> None:
    with pytest.raises(ValueError) as caught:
        resolve(dataset, train, FILE)
    assert str(caught.value) == line


@pytest.mark.parametrize("seed", [-1, 1.0, "0", True, 2**32])
def test_seed(seed: Any) -> None:
    with pytest.raises(ValueError, match=r"^seed: "):
        parse(Run, {"method": "an", "seed": seed, "device": "auto"}, "")
