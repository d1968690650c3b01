"""Measurements for docs/performance.md: each command prints speeds and ratios of one run."""

import functools
import multiprocessing
import time
from itertools import product
from math import inf
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from PIL import Image
from torchvision import transforms

from benchmarks import busy, growth, peers, selection
from benchmarks.data import CLASSES, image_files, label_table, prepared, score_once, scores_of
from benchmarks.turns import Contestant, in_own_process, print_turns, timed
from mlml import corruption, metrics
from mlml.commands.grid import grid_of, jobs_of
from mlml.core.threads import cores
from mlml.images.resizing import accelerated
from mlml.images.store import Images, Storage
from mlml.labels import ABSENT, PRESENT, UNKNOWN, table
from mlml.model import hardware
from mlml.model.classifier import Classifier
from mlml.model.engine import Engine
from mlml.model.loader import examples
from mlml.runtime.device import device_for
from mlml.settings import Setting
from mlml.training import experiment
from mlml.training.features import FOLDER, Features
from mlml.training.recipe import Recipe, Run

app = typer.Typer(
    no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None, add_completion=False, help=__doc__
)
Folder = Annotated[Path | None, typer.Option(help="A folder of image files; without it, noise is generated.")]
Count = Annotated[int, typer.Option(help="Images a round; files are repeated as needed.")]
Modes = Annotated[list[str], typer.Option(help="A mode of torch.compile; can be given several times.")]


def _title(*words: str) -> None:
    print(", ".join([*words, f"{cores()} cores", f"resizing by {'numba' if accelerated() else 'Pillow'}"]), flush=True)


@app.command()
def read(images: Folder = None, size: int = 448, batch: int = 16, count: Count = 480, rounds: int = 5) -> None:
    """Read batches in random order: the peers' DataLoader, and both storages. Checks that the pixels are Pillow's."""
    torch.set_num_threads(1)
    with image_files(images, count) as (paths, folder):
        stored = {storage: prepared(paths, size, folder, storage) for storage in ("encoded", "rows")}
        for name, each in stored.items():
            _check_pixels(name, each, paths)
        loader = peers.loader(paths, size, torch.zeros(count, 1), batch)
        _title(f"{size} pixels", f"batches of {batch}")
        epochs = {"peers": lambda: [None for _ in loader]}
        epochs |= {name: functools.partial(_read_epoch, each, batch) for name, each in stored.items()}
        print_turns({name: timed(epoch, count) for name, epoch in epochs.items()}, rounds, "images/s")


def _check_pixels(name: str, images: Images, paths: list[Path]) -> None:
    resize = transforms.Resize((images.size, images.size))
    for path, rows in zip(paths, images.stream([np.array([row]) for row in range(len(paths))]), strict=True):
        if not np.array_equal(rows[0], np.asarray(resize(Image.open(path).convert("RGB")))):
            raise SystemExit(f"{name}: {path} has other pixels than Pillow gives")


def _read_epoch(images: Images, batch: int) -> None:
    order = np.random.default_rng(0).permutation(len(images))
    for _ in images.stream(order[start : start + batch] for start in range(0, len(order), batch)):
        pass


@app.command()
def prepare(
    images: Folder = None, size: int = 448, count: Count = 1000, rounds: int = 5, storage: Storage = "rows"
) -> None:
    """Prepare images: Pillow alone in one process per core, and `prepare`, which also writes. Memory at two sizes."""
    with image_files(images, 4 * count) as (paths, folder), multiprocessing.get_context("spawn").Pool(cores()) as pool:
        _title(f"{size} pixels", storage)
        work = {
            "Pillow": lambda: peers.resize_all(pool, paths[:count], size),
            "mlml": lambda: prepared(paths[:count], size, folder, storage),
        }
        print_turns({name: timed(each, count) for name, each in work.items()}, rounds, "images/s")
        for n in (count, 4 * count):
            used = in_own_process(prepared, paths[:n], size, folder, storage)
            print(f"memory for {n} images: {used.memory / 1e6:.0f} MB")


@app.command()
def train(
    images: Folder = None,
    backbone: str = "resnet50",
    size: int = 224,
    batch: int = 16,
    count: Count = 64,
    rounds: int = 3,
    device: str = "auto",
    precision: str = "auto",
    compile: str = "auto",
) -> None:
    """Train: the peers' loop, the model alone on one batch, and `mlml.training.experiment.train`."""
    place, table = device_for(device), label_table(count, validation=1)
    observed = corruption.corrupt(table.labels[:count], Setting.parse("pol_02"), 0)
    this = Run(method="pseudo_label", seed=0, device=device)
    options = {"weights": "none", "prior": 1.5, "precision": precision, "compile": compile}
    recipe = Recipe(backbone=backbone, batch_size=batch, **options)
    with image_files(images, count + 1) as (paths, folder):
        stored, ends = prepared(paths, size, folder, "rows"), []
        training = examples(stored, table, "train")._replace(labels=observed)
        validation = examples(stored, table, "validation")

        def run(epochs: int) -> experiment.Trained:
            plan, note = recipe.model_copy(update={"epochs": epochs}), lambda _: ends.append(time.perf_counter())
            return experiment.train(training, validation, plan, this, note)

        def second_epoch() -> float:  # the first one warms up; one image validates
            run(epochs=2)
            return count / (ends[-1] - ends[-2])

        chosen = run(epochs=1).hardware
        _title(backbone, f"{size} pixels", f"batches of {batch}", chosen.line())
        model = Classifier(backbone, CLASSES)
        hardware.set_up_training(chosen, model)
        targets = torch.from_numpy(table.labels[:count] == PRESENT).float()
        batches = peers.loader(paths[:count], size, targets, batch)
        contestants = {
            "peers": timed(peers.trainer(batches, backbone, CLASSES, place), count),
            "model alone": _steps(model.to(place), size, batch, -(-count // batch)),
            "mlml": second_epoch,
        }
        print_turns(contestants, rounds, "images/s")


def _steps(model: Classifier, size: int, batch: int, steps: int = 1) -> Contestant:
    """Training steps on one batch of noise, with the algorithms of a run."""
    images = torch.randint(0, 256, (batch, size, size, 3), dtype=torch.uint8, device=model.device)
    optimizer = torch.optim.Adam(model.parameters(), 1e-5, fused=images.is_cuda)

    def work() -> None:
        torch.use_deterministic_algorithms(True, warn_only=True)
        model.train()
        for _ in range(steps):
            optimizer.zero_grad(set_to_none=True)
            loss = model(images).sigmoid().mean()
            loss.backward()
            optimizer.step()
        loss.item()  # waits for the device

    return timed(work, steps * batch)


@app.command()
def engine(
    backbone: str = "resnet50",
    size: int = 224,
    batch: int = 16,
    rounds: int = 3,
    device: str = "auto",
    compile: Modes = ["none"],  # noqa: B006  # typer's way to have a list
) -> None:
    """A training step of the model alone, in each layout, precision and mode of torch.compile."""
    place, contestants = device_for(device), {}
    for mode, layout, precision in product(compile, (False, True), ("float32", "bfloat16")):
        model = Classifier(backbone, CLASSES)
        wanted = Engine(precision=precision, compile=mode, channels_last=layout)
        hardware.set_up_training(hardware.choose(wanted, place, model, inf, 0), model)
        name = f"{'channels_last' if layout else 'channels first'} {precision} {mode if mode != 'none' else ''}"
        contestants[name] = _steps(model.to(place), size, batch)
    _title(backbone, f"{size} pixels", f"batches of {batch}")
    print_turns(contestants, rounds, "images/s")


@app.command()
def corrupt(images: int = 65_665, classes: int = 80, rounds: int = 3) -> None:
    """Draw the observed labels: a loop over the images, and `mlml.corruption.corrupt`."""
    random = np.random.default_rng(0)
    present = random.random((images, classes)) < 2.94 / classes  # COCO's present labels per image
    present[np.arange(images), random.integers(0, classes, images)] = True
    labels = np.where(present, PRESENT, ABSENT).astype(np.int8)
    for name in ("pol_02", "pol_08", "ppl_06", "spl"):
        setting = Setting.parse(name)
        loop = functools.partial(peers.discard, labels, setting)
        ours = functools.partial(corruption.corrupt, labels, setting, 0)
        if np.count_nonzero(loop() != UNKNOWN) != np.count_nonzero(ours() != UNKNOWN):
            raise SystemExit(f"{name}: the loop and mlml leave different numbers of labels")
        print_turns({f"{name}, loop": timed(loop), f"{name}, mlml": timed(ours)}, rounds, "tables/s")


@app.command()
def ap(images: int = 40_137, classes: int = 80, rounds: int = 11) -> None:
    """Average precision of every class: scikit-learn, torchmetrics and mlml, each in one thread."""
    torch.set_num_threads(1)
    _title(f"{images:,} images", f"{classes} classes")
    functions = {
        "scikit-learn": (peers.sklearn_ap, 0.0),
        "torchmetrics": (peers.torchmetrics_ap, 1e-5),
        "mlml": (metrics.average_precision, 1e-12),
    }
    truth, scores = scores_of(images, classes)
    expected = peers.sklearn_ap(truth, scores)
    for name, (function, tolerance) in functions.items():
        far = np.abs(function(truth, scores) - expected).max()
        if not far <= tolerance:
            raise SystemExit(f"{name}: {far} from scikit-learn's, more than {tolerance}")
        all_rows, few = (in_own_process(score_once, function, images, classes, rows).memory for rows in (images, 50))
        print(f"{name:26}within {far:.1e} of scikit-learn's; memory {(all_rows - few) / 1e6:.1f} MB")
    work = {name: timed(functools.partial(function, truth, scores)) for name, (function, _) in functions.items()}
    print_turns(work, rounds, "tables/s")


@app.command(name="busy")
def busy_command(rounds: int = 5, seconds: float = 4.0) -> None:
    """Training and evaluation beside other work: the ways in which threads wait, and one thread. 15 minutes."""
    _title("resnet10t", "64 pixels", f"batches of {busy.BATCH}", "images/s: median of the rounds")
    for what, state, waiting, speed in busy.measure(cores(), rounds, seconds):
        print(f"{what:10}{state:18}{waiting:26}{speed:8.1f}", flush=True)


@app.command(name="selection")
def selection_command(
    data: Annotated[Path, typer.Argument(help="The folder with the prepared labels.csv and images/.")],
    words: Annotated[list[str], typer.Argument(metavar="NAME=VALUE,...", help="The runs, as for `mlml grid -S`.")],
    draws: int = 3,
    absent: Annotated[list[int], typer.Option(help="So many absent labels of each image are known besides.")] = [0],  # noqa: B006
) -> None:
    """What choosing epoch and learning rate by partial validation labels loses, in points of test mAP."""
    features, labels = Features(FOLDER), table.read(data / "labels.csv")
    runs = [(job, selection.train(job, data, features)) for job in jobs_of(grid_of(words))]
    for count in absent:
        found = selection.losses(runs, labels.labels[labels.rows("validation")], draws, count)
        print(f"{count} absent labels of each image besides\n{found.to_string()}" if count else found.to_string())


@app.command(name="growth")
def growth_command(
    images: int = 5_000,
    classes: int = 250,
    times: Annotated[int, typer.Option(help="So many times the images, the classes, and both; 1: one size.")] = 4,
    steps: str = "prepare,corrupt,train,resume,evaluate",
    method: str = "pseudo_label",
    options: Annotated[str, typer.Option(help="The method's, as JSON.")] = '{"start_epoch": 0}',
) -> None:
    """How time and memory of the steps grow with images and classes; each step in a process of its own."""
    factors = sorted({1, times})
    growth.measure([(images * n, classes * m) for m in factors for n in factors], steps.split(","), method, options)


if __name__ == "__main__":
    app()
