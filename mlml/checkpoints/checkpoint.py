"""What a run that was killed goes on from: its state after the last finished epoch, in a file."""

import logging
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import IO, Any, cast

import filelock
import torch
from torch import Tensor

from mlml.checkpoints.hashed import Hashing, whole
from mlml.core.files import atomic_write, sync

logger = logging.getLogger(__name__)

# An experiment of DVC's outside the workspace has a folder of its own, which is removed even if it fails: to keep its
# checkpoints, set the variable to an absolute path.
FOLDER = Path(os.environ.get("MLML_CHECKPOINTS", ".mlml/checkpoints"))
SUFFIX = ".checkpoint"
PATIENCE = 1.0  # seconds that Ctrl-C leaves for what is being written


class Checkpoint:
    """The file `folder`/`key`.checkpoint.

    It is written by a thread, while the next epoch trains: a finished epoch is on the disk about as long after its end
    as writing takes.

    Args:
        folder: made when it is needed. Not an output of DVC's, which are removed before a stage runs.
        key: what the run's result depends on; see `mlml.checkpoints.fingerprint`.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self.path = folder / f"{key}{SUFFIX}"
        self.epoch: int | None = None
        """The last epoch in the file, 0 after `train.linear_init`; None: there is no file."""
        self._given_up = Event()
        self._writer = ThreadPoolExecutor(1, "checkpoint")
        self._writing: Future[None] | None = None

    def load(self) -> dict[str, Any] | None:
        """What was saved last; None if there is nothing. A damaged file is said, removed, and None too."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return None
        with file:
            if not whole(file):
                logger.warning(f"{self.path} is damaged: it is removed, and training starts anew")
                self.path.unlink()
                return None
            file.seek(0)
            state: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
        self.epoch = state["epoch"]
        return state

    def save(self, state: Mapping[str, Any]) -> None:
        """Write `state` in the background, in place of what was saved before.

        Args:
            state: tensors, numbers and texts in dictionaries, lists and tuples, and its "epoch". It may be changed
                as soon as this returns.

        Raises:
            OSError: the state before this one could not be written; says what is kept.
        """
        self.wait()
        copied = _copied(state)
        self._writing = self._writer.submit(self._write, copied)

    def wait(self) -> None:
        """Wait until the file is written.

        Raises:
            OSError: it could not be; says what is kept.
        """
        writing, self._writing = self._writing, None
        if writing is None:
            return
        try:
            writing.result()
        except OSError as error:
            raise OSError(f"{self.path}: {error.strerror or error}; {self.kept()}") from error

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes from this run, and say what is kept if it is interrupted or cannot write a file.

        Ctrl-C gives up what is still being written after `PATIENCE`: the epoch before is kept.

        Raises:
            OSError: another process has this run; or the run's own, which then says what is kept, if anything is.
            KeyboardInterrupt: says what is kept.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = self.path.with_suffix(".lock")
        lock = filelock.FileLock(file, timeout=0)
        try:
            lock.acquire()
        except filelock.Timeout:
            raise OSError(f"{file}: another process trains this very run; wait for it, or end it") from None
        try:
            yield
        except KeyboardInterrupt:
            if self._writing is not None and wait([self._writing], PATIENCE).not_done:
                self._given_up.set()
                wait([self._writing])
            raise KeyboardInterrupt(self.kept()) from None
        except OSError as error:
            if self.epoch is None or self.kept() in str(error):
                raise
            raise OSError(f"{error}; {self.kept()}") from error
        finally:
            file.unlink(missing_ok=True)  # while it is locked, so that it is no other's
            lock.release()

    def kept(self) -> str:
        """What a run that ends here leaves, and what to do, for a message."""
        if self.epoch is None:
            return "no epoch is kept"
        trained = f"up to epoch {self.epoch}" if self.epoch else "of the linear layer"
        return f"what was trained {trained} is kept; the same command goes on after it"

    def remove(self) -> None:
        """Forget what was saved: the run is complete."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.exception()  # whether it could be written does not matter any more
        self.path.unlink(missing_ok=True)

    def _write(self, state: Mapping[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(self.path) as part, part.open("wb") as file:
            hashing = Hashing(file, self._given_up)
            try:
                torch.save(state, cast(IO[bytes], hashing))
            except RuntimeError as error:  # torch hides what went wrong behind "unexpected pos"
                raise hashing.fault or error from None
            file.write(hashing.digest())
            file.flush()
            os.fsync(file.fileno())  # or a power failure leaves the new name with nothing in it
        sync(self.path.parent)
        self.epoch = state["epoch"]


def _copied(value: Any) -> Any:
    """The same, with tensors that share no memory with the originals, on the CPU."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, Mapping):
        return {key: _copied(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_copied(each) for each in value]
    return value


def others(checkpoint: Checkpoint) -> str | None:
    """A remark about the files of other runs that did not end, if there are any: they take room."""
    sizes: dict[str, int] = {}
    for file in checkpoint.path.parent.glob(f"*{SUFFIX}"):  # among them those that were not written to their end
        run = file.name.removeprefix(".")
        with suppress(FileNotFoundError):  # a run that is going on has just renamed or removed it
            sizes[run] = sizes.get(run, 0) + file.stat().st_size
    sizes.pop(checkpoint.path.name, None)
    if not sizes:
        return None
    size = sum(sizes.values()) / 1e6
    return f"{checkpoint.path.parent} keeps {size:,.0f} MB of other runs that have not ended: {len(sizes)}"
