"""The state of a run after its last finished epoch, in a file that an interrupted run resumes from."""

import logging
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import IO, Any

import filelock
import torch
from torch import Tensor

from mlml.core.errors import message
from mlml.core.files import atomic_write, sync

logger = logging.getLogger(__name__)

# DVC runs an experiment outside the workspace in a folder that it removes even after a failure: to keep checkpoints
# there, set the variable to an absolute path.
FOLDER = Path(os.environ.get("MLML_CHECKPOINTS", ".mlml/checkpoints"))
SUFFIX = ".checkpoint"
COMPLETE = ".complete"


class Checkpoint:
    """The file `folder`/`key`.checkpoint, written by a thread while the next epoch trains.

    Args:
        folder: created when needed. Not an output of DVC, which removes outputs before a stage runs.
        key: identifies all that the run's result depends on; see `mlml.checkpoints.fingerprint`.

    Attributes:
        epoch: the last epoch in the file, 0 after `train.linear_init`; None: there is no file.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self.path = folder / f"{key}{SUFFIX}"
        self.epoch: int | None = None
        self._writer: Thread | None = None
        self._error: Exception | None = None

    def load(self) -> dict[str, Any] | None:
        """The state that was saved last, or None. A damaged file is reported, removed and None too."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return None
        with file:
            try:
                state = _load(file)
            except MemoryError:
                raise
            except Exception:  # zipfile and torch raise nearly everything on a damaged file
                logger.warning(f"{self.path} is damaged: it is removed, and training starts anew")
                self.path.unlink()
                return None
        self.epoch = state["epoch"]
        return state

    def save(self, state: Mapping[str, Any]) -> None:
        """Write `state` in the background; it replaces what was saved before.

        Args:
            state: tensors, numbers and strings in dictionaries, lists and tuples, with a key "epoch". It may change
                as soon as this returns.

        Raises:
            OSError: the previous state could not be written; says what is kept.
        """
        self.wait()
        self._writer = Thread(target=self._write, args=[_copy(state)])
        self._writer.start()

    def wait(self) -> None:
        """Wait until the file is written.

        Raises:
            OSError: it could not be; says what is kept.
        """
        self._finish()
        self._writer, error, self._error = None, self._error, None
        if isinstance(error, OSError):
            raise OSError(f"{message(error)}; {self.kept()}") from error
        if error is not None:
            raise error

    @contextmanager
    def held(self, safe: Callable[[str], bool] = lambda result: False) -> Iterator[None]:
        """Lock this run against other processes, and say what is kept when it is interrupted or cannot write a file.

        However the run ends, the file that is being written is finished first.

        Args:
            safe: whether the result of a complete run is safe; then its file is removed.

        Raises:
            OSError: another process has this run; or one of the run itself, which then says what is kept.
            KeyboardInterrupt: says what is kept.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = self.path.with_suffix(".lock")
        lock = filelock.FileLock(file, timeout=0)
        try:
            lock.acquire()
        except filelock.Timeout:
            raise OSError(
                f"{file}: another process is training this run; wait until it has ended and repeat the command, which "
                "then takes over its result, or stop it"
            ) from None
        _remove_complete(self.path.parent, safe)
        if remark := others(self):
            logger.info(remark)
        try:
            yield
        except KeyboardInterrupt:
            self._finish()
            raise KeyboardInterrupt(self.kept()) from None
        except OSError as error:
            self._finish()
            if self.epoch is None or self.kept() in str(error):
                raise
            raise OSError(f"{message(error)}; {self.kept()}") from error
        finally:
            self._finish()
            file.unlink(missing_ok=True)  # while it is locked: afterwards it may be another process's
            lock.release()

    def kept(self) -> str:
        """What a run that ends now leaves, and what to do, for a message."""
        if self.epoch is None:
            return "no epoch is kept"
        trained = f"up to epoch {self.epoch}" if self.epoch else "of the linear layer"
        return f"what was trained {trained} is kept; run the same command to resume"

    def complete(self, result: str) -> None:
        """Note that the run is complete. Its file stays until a later run finds that `result` is safe.

        Until whoever started the run has taken its result over, a kill would throw a finished training away.

        Args:
            result: names what the run has written; see `held`.
        """
        self._finish()
        self._writer = self._error = None  # whether the last state could be written does not matter any more
        with atomic_write(self.path.with_suffix(COMPLETE)) as part:
            part.write_text(result, encoding="utf-8")

    def _finish(self) -> None:
        if self._writer is not None:
            self._writer.join()

    def _write(self, state: Mapping[str, Any]) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(self.path) as part, part.open("wb") as file:
                try:
                    torch.save(state, file)
                except RuntimeError as error:  # torch's own, about the position in the file, hides the system's
                    raise error.__context__ if isinstance(error.__context__, OSError) else error from None
                file.flush()
                os.fsync(file.fileno())  # or after a power failure the new name may have no content
            sync(self.path.parent)
            self.epoch = state["epoch"]
        except Exception as error:
            self._error = error


def _load(file: IO[bytes]) -> dict[str, Any]:
    with zipfile.ZipFile(file) as archive:
        if archive.testzip() is not None:  # torch does not look at the checksums that it writes
            raise zipfile.BadZipFile
    file.seek(0)
    state: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
    if type(state["epoch"]) is not int:
        raise TypeError("it is no state of a run")
    return state


def _copy(value: Any) -> Any:
    """A deep copy whose tensors are on the CPU."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, Mapping):
        return {key: _copy(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(each) for each in value]
    return value


def _remove_complete(folder: Path, safe: Callable[[str], bool]) -> None:
    """Remove the files of complete runs whose result is safe."""
    for file in folder.glob(f"*{COMPLETE}"):
        with suppress(FileNotFoundError):  # another process does the same
            if safe(file.read_text(encoding="utf-8")):
                file.with_suffix(SUFFIX).unlink(missing_ok=True)
                file.unlink()


def others(checkpoint: Checkpoint) -> str | None:
    """A remark about the files of unfinished runs, if there are any: they take space."""
    sizes: dict[str, int] = {}
    for file in checkpoint.path.parent.glob(f"*{SUFFIX}"):  # a half-written file begins with a point
        run = file.name.removeprefix(".")
        with suppress(FileNotFoundError):  # a run in progress has just renamed or removed it
            sizes[run] = sizes.get(run, 0) + file.stat().st_size
    sizes.pop(checkpoint.path.name, None)
    if not sizes:
        return None
    megabytes = sum(sizes.values()) / 1e6
    return f"unfinished runs keep {megabytes:,.0f} MB in {checkpoint.path.parent}: {len(sizes)}"
