"""The pipeline's stages: one file, one stage of dvc.yaml. What they share: parameters in, one-line errors out."""

import os
import signal
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import dvc.api
import typer

import mlml
from mlml.core.errors import one_line
from mlml.core.params import DATASET, PARAMS, read_sections
from mlml.core.progress import log_to_terminal


def parameters(stage: str) -> dict[str, Any]:
    """The parameters that dvc.yaml declares for `stage`, as DVC resolved them.

    An undeclared one is a KeyError here, instead of a value that DVC does not watch.
    """
    dataset = read_sections(Path("params.yaml"), PARAMS)["dataset"]
    read_sections(Path(f"datasets/{dataset}/dataset.yaml"), DATASET)
    values: dict[str, Any] = dvc.api.params_show(stages=os.environ.get("DVC_STAGE", stage))
    return values


def _interrupt(number: int, frame: object) -> None:
    """Do on SIGTERM what Ctrl-C does: SLURM ends a job by it, and torchrun its processes."""
    raise KeyboardInterrupt


def run(main: Callable[..., None]) -> None:
    """Run a stage's function as a command; for its errors see `mlml.core.errors.one_line`."""
    expected = Path.cwd() / "mlml"
    if Path(mlml.__file__).resolve().parent != expected.resolve():
        sys.exit(f"mlml is imported from {mlml.__file__}, not from {expected}: run stages as `python -m stages.<name>`")
    signal.signal(signal.SIGTERM, _interrupt)
    log_to_terminal()
    stage = Path(sys.argv[0]).stem
    rank = int(os.environ.get("RANK", 0))  # set by torchrun
    stage += f", process {rank}" if rank else ""

    @wraps(main)
    def command(*arguments: Any, **options: Any) -> None:
        with one_line(stage):
            try:
                main(*arguments, **options)
            except KeyboardInterrupt:
                if rank:
                    sys.exit(1)  # the first process says what is kept
                raise

    # Plain text, as for the command `mlml`: what DVC runs ends up in log files.
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
    app.command()(command)
    app()
