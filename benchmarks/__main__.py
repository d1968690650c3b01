"""All of the engine in one table, each figure with its measure from the same run: ``python -m benchmarks``.

Reading images, the model, the whole loop, and evaluation, against the way public training code does it; see
benchmarks/engine.py and benchmarks/evaluation.py. Photographs are better than the noise that is made without --images.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks import evaluation
from benchmarks.engine import Setup
from benchmarks.prepare import image_files
from benchmarks.turns import once, rate, ratio, take_turns
from mlml.core.params import parse
from mlml.core.threads import cores
from mlml.model.engine import Engine
from mlml.runtime.device import device_for
from mlml.training.recipe import Recipe

READING = [("encoded", "peers read"), ("rows", "peers read"), ("device", "peers read")]
TRAINING = [("model", "peers loop"), ("loop", "peers loop"), ("loop", "model")]
SCORES = [(40_137, 80), (5_823, 20)]  # test images and classes of COCO 2014 and of Pascal VOC 2012


def pictures(folder: Path, count: int) -> list[Path]:
    """Made-up photographs, 500 x 375: coarse noise, whose JPEGs are about as long as real ones."""
    random = np.random.default_rng(0)
    paths = [folder / f"{number}.jpg" for number in range(count)]
    for path in paths:
        coarse = Image.fromarray(random.integers(0, 256, (94, 125, 3), np.uint8))
        coarse.resize((500, 375), Image.Resampling.BICUBIC).save(path, quality=90)
    return paths


def options() -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--images", type=Path, help="a folder of photographs")
    parser.add_argument("--backbone", default="resnet50", help="a timm model")
    parser.add_argument("--size", type=int, default=448, help="edge of the images in pixels")
    parser.add_argument("--batch", type=int, default=16, help="images a batch")
    parser.add_argument("--count", type=int, default=64, help="images an epoch; files are repeated as needed")
    parser.add_argument("--rounds", type=int, default=3, help="epochs of each")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a switch of `train`")
    return parser.parse_args()


def switches(words: list[str]) -> Engine:
    """What ``--set`` says; exits with a line if that is wrong."""
    given = dict(word.partition("=")[::2] for word in words)
    try:
        return parse(Engine, {name: {"true": True, "false": False}.get(each, each) for name, each in given.items()}, "")
    except ValueError as error:
        raise SystemExit(f"--set {error}") from None


def table(rates: dict[str, list[float]], pairs: list[tuple[str, str]], unit: str) -> None:
    """A line a contestant, and one a ratio."""
    for name in dict.fromkeys(name for pair in pairs for name in reversed(pair) if name in rates):
        print(f"{name:24}{rate(rates, name):>30} {unit}")
    for one, other in pairs:
        if one in rates:
            print(f"{f'{one} / {other}':24}{ratio(rates, one, other):>30}")


def main() -> None:
    chosen = options()
    recipe = Recipe(backbone=chosen.backbone, batch_size=chosen.batch, **switches(chosen.set).model_dump())
    with tempfile.TemporaryDirectory() as folder:
        files = image_files(chosen.images) if chosen.images else pictures(Path(folder), min(chosen.count, 64))
        paths = [files[number % len(files)] for number in range(chosen.count)]
        setup = Setup(paths, chosen.size, recipe, 20, device_for(chosen.device), Path(folder))
        print(f"{chosen.backbone}, {chosen.size} pixels, batches of {chosen.batch}, {cores()} cores")
        print(setup.chosen.line())
        table(take_turns(setup.contestants(), chosen.rounds), READING + TRAINING, "images/s")
    for images, classes in SCORES:
        print(f"average precision, {images:,} images, {classes} classes")
        each = evaluation.contestants(images, classes)
        table(
            take_turns({name: once(work) for name, work in each.items()}, 3 * chosen.rounds),
            [("ours", "scikit-learn"), ("torchmetrics", "scikit-learn")],
            "tables/s",
        )


if __name__ == "__main__":
    main()
