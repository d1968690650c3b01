"""The pipeline's stages: one file, one stage of dvc.yaml. What they share: parameters in, one-line errors out.

DVC hashes what a stage depends on when the stage ends. So a stage notes the hashes when it starts, and fails if they
are others at its end: what was edited meanwhile would be recorded as if it had been used.
"""

import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any


def _show_git() -> None:
    """Touch the parameter files, before a stage fails or is interrupted.

    `dvc exp run -S` writes git's index in the second in which it changes the file, which often keeps its size, too:
    then git takes it for unchanged, and neither `git status` nor `git restore` sees the wrong value.
    """
    for file in [Path("params.yaml"), *Path("datasets").glob("*/dataset.yaml")]:
        with suppress(OSError):
            os.utime(file)


def _quit(number: int, frame: FrameType | None) -> None:
    _show_git()
    os._exit(130)


LOCK = Path(".mlml/stage.lock")
RUN_BY_DVC = "DVC_STAGE" in os.environ and sys.argv[0] == "-m"  # which it is while this package is imported
if RUN_BY_DVC:
    signal.signal(signal.SIGINT, _quit)  # Ctrl-C while modules are imported, until `run`

from dvc.exceptions import DvcException  # noqa: E402
from dvc.repo import Repo  # noqa: E402

logging.getLogger("dvc").setLevel(logging.CRITICAL)  # no progress bars: DVC has just hashed the same files


class _Stage:
    """What DVC says of a stage now: its parameters and the hashes of its dependencies and outputs."""

    def __init__(self, name: str) -> None:
        try:
            with Repo() as repo:
                stage = repo.stage.load_one(name=name)
                self.inputs = {str(each): each.get_hash().value if each.exists else None for each in stage.deps}
                self.outputs = {str(out): out.get_hash().value for out in stage.outs if out.exists and out.use_cache}
                self.parameters: dict[str, Any] = {}
                for dependency in stage.params:
                    self.parameters |= dependency.read_params(flatten=False)
        except DvcException as error:
            raise ValueError(str(error)) from None


# Before the code is imported, so that it is the code that runs.
_start = _Stage(os.environ["DVC_STAGE"]) if RUN_BY_DVC else None

import filelock  # noqa: E402
import typer  # noqa: E402

import mlml  # noqa: E402
from mlml.core.errors import one_line  # noqa: E402
from mlml.core.params import DATASET, PARAMS, read_sections  # noqa: E402
from mlml.core.progress import log_to_terminal  # noqa: E402


def parameters(stage: str) -> dict[str, Any]:
    """The parameters that dvc.yaml declares for `stage`, as DVC resolved them.

    An undeclared one is a KeyError here, instead of a value that DVC does not watch.
    """
    values = (_start or _Stage(stage)).parameters
    read_sections(Path("params.yaml"), PARAMS)
    if type(values.get("dataset")) in (int, float):  # a folder called 2012
        values["dataset"] = str(values["dataset"])
    file = Path(f"datasets/{values.get('dataset')}/dataset.yaml")
    if file.exists():  # if not, the stage check says so
        read_sections(file, DATASET)
    return values


def check_inputs() -> None:
    """Check that what DVC will record as this stage's inputs is what the stage started with.

    Raises:
        ValueError: a parameter, code or data was changed meanwhile; says which.
    """
    if _start is None:
        return
    before, now = _start.inputs, _Stage(os.environ["DVC_STAGE"]).inputs
    changed = [name for name in before if before[name] != now.get(name) and not isinstance(before[name], dict)]
    for file, values in before.items():
        if isinstance(values, dict):
            new = now.get(file) or {}
            keys = sorted(key for key in values if values[key] != new.get(key))
            changed += [f"{file}: {key}, from {values[key]!r} to {new.get(key)!r}" for key in keys]
    if changed:
        raise ValueError(
            f"changed while this stage ran: {'; '.join(changed)}. Its results are those of the old state and are not "
            "recorded; run the same command again for the new one"
        )


def outputs() -> str:
    """The hashes by which DVC's cache will know this stage's outputs; empty if DVC does not run the stage."""
    return " ".join(sorted(_Stage(os.environ["DVC_STAGE"]).outputs.values())) if _start else ""


def in_cache(hashes: str) -> bool:
    """Whether DVC's cache has all of what `outputs` returned: then the run is recorded, too."""
    with Repo() as repo:
        return all(map(repo.cache.local.exists, hashes.split()))


def _alone() -> filelock.FileLock:
    """Take the lock that this folder's stages hold until their process ends.

    A stage goes on when its DVC is killed, and would write over the results of the next one.

    Raises:
        OSError: another stage runs here.
    """
    LOCK.parent.mkdir(exist_ok=True)
    lock = filelock.FileLock(LOCK, timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise OSError(
            f"another stage still runs in {Path.cwd()}, perhaps of a command that was killed: wait until it has ended, "
            "or stop it, and repeat the command; a training that has ended is not repeated"
        ) from None
    return lock


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, once: what is being written is finished.

    Ctrl-C does that, and SIGTERM, by which SLURM ends a job and torchrun its processes.
    """
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def run(main: Callable[..., None]) -> None:
    """Run a stage's function as a command; for its errors see `mlml.core.errors.one_line`."""
    expected = Path.cwd() / "mlml"
    if Path(mlml.__file__).resolve().parent != expected.resolve():
        sys.exit(f"mlml is imported from {mlml.__file__}, not from {expected}: run stages as `python -m stages.<name>`")
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, _interrupt)
    log_to_terminal()
    stage = Path(sys.argv[0]).stem
    rank = int(os.environ.get("RANK", 0))  # set by torchrun
    stage += f", process {rank}" if rank else ""

    @wraps(main)
    def command(*arguments: Any, **options: Any) -> None:
        with one_line(stage):
            try:
                lock = _alone() if RUN_BY_DVC and "RANK" not in os.environ else None
                main(*arguments, **options)
                check_inputs()
                del lock  # held until here
            except KeyboardInterrupt:
                _show_git()
                if rank:
                    sys.exit(1)  # the first process says what is kept
                raise
            except Exception:
                _show_git()
                raise

    # Plain text, as for the command `mlml`: what DVC runs ends up in log files.
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
    app.command()(command)
    app()
