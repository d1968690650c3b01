"""How public training code reads images and trains: the measure for `benchmarks.loader` and `benchmarks.engine`."""

from collections.abc import Callable
from pathlib import Path

import timm
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from mlml.core.threads import cores

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Peers(Dataset):
    """An image file an item, as a float32 tensor [3, S, S], and its labels, float32 [L]."""

    def __init__(self, paths: list[Path], size: int, labels: Tensor) -> None:
        self.paths, self.labels = paths, labels
        self.transform = transforms.Compose(
            [
                transforms.Resize((size, size)),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize(MEAN, STD),
            ]
        )

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.transform(Image.open(self.paths[index]).convert("RGB")), self.labels[index]


def loader(paths: list[Path], size: int, labels: Tensor, batch: int) -> DataLoader:
    """With a worker process a core, which live on from epoch to epoch."""
    pinned = torch.cuda.is_available()
    return DataLoader(
        Peers(paths, size, labels), batch, shuffle=True, num_workers=cores(), persistent_workers=True, pin_memory=pinned
    )


def reads(batches: DataLoader) -> Callable[[], int]:
    """An epoch of reading; how many images it had."""
    return lambda: sum(len(images) for images, _ in batches)


def trains(batches: DataLoader, backbone: str, classes: int, device: torch.device) -> Callable[[], int]:
    """An epoch of training: channels first, float32, and the loss looked at in each step; how many images it had."""
    model = timm.create_model(backbone, num_classes=classes).to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), 1e-5)
    criterion = torch.nn.BCEWithLogitsLoss()

    def epoch() -> int:
        count, total = 0, 0.0
        for images, labels in batches:
            loss = criterion(model(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            count += len(images)
        return count

    return epoch
