"""A training step, its parts, and the peers' way of doing it.

What takes part, each with the same number of images an epoch:

peers read    Pillow in worker processes (benchmarks/peers.py)
encoded       image files decoded in threads, copied to the device
rows          decoded images from a memory map, copied to the device
model         steps on one batch that is on the device already: forward, loss, backward, optimizer
loop          `mlml.training.loop.train_epoch` as it is: reading, mirroring, steps, keeping predictions
peers loop    the peers' reading, channels first, float32
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks import peers
from benchmarks.prepare import source_of
from mlml import methods
from mlml.datasets.prepare import prepare
from mlml.images.store import open_images
from mlml.labels import PRESENT
from mlml.methods import Batch
from mlml.model import hardware
from mlml.model.classifier import Classifier
from mlml.model.loader import Examples, on_device, stream
from mlml.runtime.device import seed_everything
from mlml.training.loop import train_epoch
from mlml.training.optimizer import Optimizer
from mlml.training.recipe import Recipe
from mlml.training.state import TrainState

Work = Callable[[], int]


def undetermined(work: Work) -> Work:
    """The same with torch's usual algorithms, whose results may differ from one time to the next."""

    def whole() -> int:
        torch.use_deterministic_algorithms(False)
        try:
            return work()
        finally:
            seed_everything(0)

    return whole


class Setup:
    """What all contestants train: a classifier by the paper's method, on image files.

    Args:
        paths: of the images of an epoch; a file may be there more than once.
        folder: for prepared images.
    """

    def __init__(self, paths: list[Path], size: int, recipe: Recipe, classes: int, device: torch.device, folder: Path):
        self.paths, self.size, self.recipe, self.device = paths, size, recipe, device
        seed_everything(0)  # a run's algorithms are those whose results can be repeated
        source = source_of(lambda row: paths[row].read_bytes(), len(paths))
        self.stored = {}
        for storage in ("encoded", "rows"):
            prepare(source, size, folder / storage, storage)
            self.stored[storage] = open_images(folder / storage)
        random = np.random.default_rng(0)
        full = np.where(random.random((len(paths), classes)) < 0.1, 1, -1).astype(np.int8)
        self.observed = np.where(random.random(full.shape) < 0.8, 0, full).astype(np.int8)
        self.labels = torch.from_numpy(full == PRESENT).float()
        self.model = Classifier(recipe.backbone, classes)
        pixels = size * size
        self.chosen = hardware.choose(recipe, device, self.model, 3 * pixels * len(paths), 1e12)
        hardware.use(self.chosen, self.model)
        self.model.to(device)
        method = methods.build("pseudo_label", methods.TrainLabels(torch.from_numpy(self.observed), 1.5, 10))
        self.method = method.to(device)
        order = torch.Generator().manual_seed(0)
        self.run = TrainState(self.model, self.method, Optimizer(self.model.parameters(), method, 1e-5), order, None)

    def examples(self, storage: str) -> Examples:
        """All images, as they are stored."""
        return Examples(self.stored[storage], np.arange(len(self.paths)), self.observed)

    def contestants(self) -> dict[str, Work]:
        """By name: does an epoch and returns its number of images."""
        batches = peers.loader(self.paths, self.size, self.labels, self.recipe.batch_size)
        found: dict[str, Work] = {"peers read": peers.reads(batches)}
        for storage in self.stored:
            found[storage] = self.reads(self.examples(storage))
        loop = self.examples("rows")
        if self.chosen.inputs == "device":
            loop = on_device(loop, self.device)
            found["device"] = self.reads(loop)
        found |= {"model": self.steps, "loop": self.loop(loop)}
        found["peers loop"] = undetermined(
            peers.trains(batches, self.recipe.backbone, self.labels.shape[1], self.device)
        )
        return {name: self.waited(work) for name, work in found.items()}

    def reads(self, examples: Examples) -> Work:
        """Batches of images in random order, on the device."""

        def epoch() -> int:
            order = torch.randperm(len(examples.rows))
            batches = order.split(self.recipe.batch_size)
            return sum(len(images) for images in stream(examples, batches, self.device))

        return epoch

    def steps(self) -> int:
        """As many images as an epoch has, but always the same batch."""
        size = min(self.recipe.batch_size, len(self.paths))
        index = torch.arange(size, device=self.device)
        images = next(iter(stream(self.examples("rows"), [torch.arange(size)], self.device)))
        batch = Batch(torch.from_numpy(self.observed[:size]).to(self.device), index)
        count = -(-len(self.paths) // size)
        self.model.train()
        for _ in range(count):
            self.run.optimizer.zero_grad()
            loss = self.method(self.model(images), batch, 1)
            loss.backward()
            self.run.optimizer.step()
        return count * size

    def loop(self, examples: Examples) -> Work:
        """An epoch of training."""
        plane = torch.empty(self.observed.shape, device=self.device)

        def keep(index: Tensor, predictions: Tensor) -> None:
            plane[index] = predictions

        def epoch() -> int:
            train_epoch(self.run, examples, self.recipe, 1, keep)
            return len(self.paths)

        return epoch

    def waited(self, work: Work) -> Work:
        """The same, until the device has done it."""

        def whole() -> int:
            done = work()
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)
            return done

        return whole
