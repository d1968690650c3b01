"""How public code reads images, trains, prepares, discards labels and scores."""

import io
from collections.abc import Callable
from multiprocessing.pool import Pool
from pathlib import Path

import numpy as np
import timm
import torch
from PIL import Image
from sklearn.metrics import average_precision_score
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchmetrics.classification import MultilabelAveragePrecision
from torchvision import transforms

from mlml.core.threads import cores
from mlml.labels import PRESENT, Labels
from mlml.settings import Setting

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class ImageFiles(Dataset):
    """Image files and their labels: float32 [3, S, S] and float32 [L] an item."""

    def __init__(self, paths: list[Path], size: int, labels: Tensor) -> None:
        self.paths, self.labels = paths, labels
        steps = [transforms.Resize((size, size)), transforms.RandomHorizontalFlip()]
        self.transform = transforms.Compose([*steps, transforms.ToTensor(), transforms.Normalize(MEAN, STD)])

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.transform(Image.open(self.paths[index]).convert("RGB")), self.labels[index]


def loader(paths: list[Path], size: int, labels: Tensor, batch: int) -> DataLoader:
    """A DataLoader with one worker process per core; the workers live until the end."""
    return DataLoader(
        ImageFiles(paths, size, labels),
        batch,
        shuffle=True,
        num_workers=cores(),
        persistent_workers=True,
        pin_memory=torch.cuda.is_available(),
    )


def trainer(batches: DataLoader, backbone: str, classes: int, device: torch.device) -> Callable[[], None]:
    """An epoch of training: channels first, float32, torch's default algorithms, the loss read in each step."""
    model = timm.create_model(backbone, num_classes=classes).to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), 1e-5)
    criterion = torch.nn.BCEWithLogitsLoss()

    def epoch() -> None:
        torch.use_deterministic_algorithms(False)
        total = 0.0
        for images, labels in batches:
            loss = criterion(model(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()

    return epoch


def resize_all(pool: Pool, paths: list[Path], size: int) -> None:
    """Decode and resize all files by Pillow in the processes of `pool`, and write nothing."""
    pool.starmap(_resize, [(path, size) for path in paths], chunksize=8)


def _resize(path: Path, size: int) -> None:
    image = Image.open(io.BytesIO(path.read_bytes())).convert("RGB")
    np.asarray(image.resize((size, size), Image.Resampling.BILINEAR))


def discard(labels: Labels, setting: Setting) -> Labels:
    """Observed labels, drawn one image at a time."""
    random = np.random.default_rng(0)
    observed = np.zeros_like(labels)
    for row, out in zip(labels, observed, strict=True):
        positives = np.flatnonzero(row == PRESENT)
        if setting.kind == "pol":
            kept = random.choice(len(row), round(setting.rate * len(row)), replace=False)
        elif setting.kind == "ppl":
            kept = random.choice(positives, min(len(positives), setting.rate * len(positives) // 1 + 1), replace=False)
        else:
            kept = random.choice(positives, min(len(positives), 1), replace=False)
        out[kept] = row[kept]
    return observed


def sklearn_ap(truth: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Average precision of each class [L] by scikit-learn; truth bool and scores float32, both [n, L]."""
    return np.array([average_precision_score(truth[:, j], scores[:, j]) for j in range(truth.shape[1])])


def torchmetrics_ap(truth: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The same by torchmetrics, exact and without the check of its arguments; it adds up in 32 bits."""
    metric = MultilabelAveragePrecision(truth.shape[1], average=None, thresholds=None, validate_args=False)
    metric.update(torch.from_numpy(scores), torch.from_numpy(truth.view(np.int8)))
    return metric.compute().numpy()
