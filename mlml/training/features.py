"""The backbone's features for linear probes, kept in memory and on disk for other runs on the same images."""

import hashlib
import logging
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import filelock
import numpy as np
import torch
from torch import Tensor, nn

import mlml
from mlml.checkpoints.fingerprint import fingerprint
from mlml.core.files import atomic_write
from mlml.model.classifier import Classifier
from mlml.model.loader import Examples
from mlml.model.predict import as_features
from mlml.runtime import parallel

logger = logging.getLogger(__name__)

# As for checkpoints: DVC's temporary folders are removed, so an absolute path keeps the files for other experiments.
FOLDER = Path(os.environ.get("MLML_FEATURES", ".mlml/features"))
SUFFIX = ".npz"  # a zip file, which has checksums
LIMIT = 10 << 30  # bytes in the folder; beyond that, the files that were not used for longest are removed
CODE = ("images/*.py", "model/*.py", "runtime/device.py")  # of this package: what decides the digits of features


def kept(images: Path) -> Callable[[Classifier, Examples], Examples]:
    """`mlml.model.predict.as_features` for one run, by way of the files in `FOLDER`.

    Args:
        images: the folder of the prepared images.
    """
    return Features(FOLDER).of(images)


class Features:
    """Features of images, each computed once in this process, and once in all that use the folder.

    Args:
        folder: created when needed.
        report: is called with (wanted, computed, loaded), numbers of images: so many more are to be computed, have
            been, have been read from the disk.
    """

    def __init__(self, folder: Path, report: Callable[[int, int, int], None] = lambda *counts: None) -> None:
        self.folder = folder
        self._report = report
        self._weights = ""
        self._kept: dict[str, Tensor] = {}  # of these weights, by key

    def of(self, images: Path) -> Callable[[Classifier, Examples], Examples]:
        """`mlml.model.predict.as_features` for a run whose backbone is not trained.

        Args:
            images: the folder of the prepared images.
        """
        weights: str | None = None

        def represent(classifier: Classifier, examples: Examples) -> Examples:
            nonlocal weights
            classifier.eval()
            weights = weights or _digest(classifier)
            if weights != self._weights:
                self._weights, self._kept = weights, {}
            key = _key(classifier, weights, examples.rows, images)
            if key not in self._kept:
                self._kept[key] = self._load_or_compute(classifier, examples, self.folder / f"{key}{SUFFIX}")
            features = self._kept[key].to(classifier.device)
            return examples._replace(images=features, rows=np.arange(len(features)))

        return represent

    def _load_or_compute(self, classifier: Classifier, examples: Examples, path: Path) -> Tensor:
        with _held(path):
            shape = (len(examples.rows), classifier.head.in_features)
            kept = parallel.broadcast(lambda: _load(path, shape))
            if kept is not None:
                self._report(0, 0, len(kept))
                return torch.from_numpy(kept)
            features = self._compute(classifier, examples)
            if parallel.is_main():
                _save(path, features)
            return features

    def _compute(self, classifier: Classifier, examples: Examples) -> Tensor:
        self._report(len(examples.rows), 0, 0)

        def count(module: nn.Module, images: object, output: Tensor) -> None:
            self._report(0, len(output), 0)

        hook = classifier.backbone.register_forward_hook(count)
        try:
            features = as_features(classifier, examples).images
        finally:
            hook.remove()
        assert isinstance(features, Tensor)
        return features


def _digest(classifier: Classifier) -> str:
    """A hash of the weights that features depend on."""
    digest = hashlib.sha256()
    for name, values in classifier.state_dict().items():
        if not name.startswith("head."):
            digest.update(name.encode())
            digest.update(values.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _key(classifier: Classifier, weights: str, rows: np.ndarray, images: Path) -> str:
    tf32 = torch.backends.cuda.matmul.allow_tf32
    values = [weights, classifier.name, classifier.precision, classifier.channels_last, tf32]
    values += [hashlib.sha256(rows.tobytes()).hexdigest()]
    code = [path for pattern in CODE for path in sorted(Path(mlml.__file__).parent.glob(pattern))]
    return fingerprint(values, code, sorted(images.iterdir()), classifier.device, loaded_code=False)


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Let one process at a time compute a file's features; another waits for it, and then reads them."""
    if not parallel.is_main():
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(path.with_suffix(".lock"))
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        logger.info("another process computes the same features: waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _load(path: Path, shape: tuple[int, int]) -> np.ndarray | None:
    """The features float32 [n, width] in a file; None if there is none, or a damaged one, which is reported."""
    try:
        with path.open("rb") as file, np.load(file) as arrays:  # np.load leaves a damaged file open that it opened
            features: np.ndarray = arrays["features"]
        if features.shape != shape or features.dtype != np.float32:
            raise ValueError
    except FileNotFoundError:
        return None
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile, zlib.error):
        logger.warning(f"{path} is damaged: its features are computed anew")
        return None
    logger.info(f"features of {len(features)} images from {path}")
    with suppress(OSError):
        os.utime(path)  # used now: see `LIMIT`
    return features


def _save(path: Path, features: Tensor) -> None:
    try:
        with atomic_write(path) as part:
            np.savez(part, features=features.cpu().numpy())
    except OSError as error:
        logger.warning(f"{path}: {error.strerror or error}; the features are not kept for other runs")
    _remove_old(path.parent)


def _remove_old(folder: Path) -> None:
    """Keep the files that were used last, at most `LIMIT` bytes of them."""
    used: dict[Path, tuple[float, int]] = {}
    for path in folder.glob(f"*{SUFFIX}"):
        with suppress(FileNotFoundError):  # another process has just removed it
            status = path.stat()
            used[path] = status.st_mtime, status.st_size
    total = 0
    for path in sorted(used, key=used.__getitem__, reverse=True):
        total += used[path][1]
        if total > LIMIT:
            path.unlink(missing_ok=True)
            path.with_suffix(".lock").unlink(missing_ok=True)
