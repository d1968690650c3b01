"""The command line ``mlml``: each command calls a function of this package.

The functions are imported when they are called, so that help and errors of usage appear at once.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option
from typer.core import TyperCommand

from mlml.core.errors import TRACEBACK, escaped, one_line
from mlml.core.progress import log_to_terminal

if TYPE_CHECKING:
    import pandas as pd

_DATA, _DOWNLOADED = Path("data"), Path("data/download")  # as dvc.yaml has them

# Plain text: it can be piped, searched and read aloud.
app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(arguments: list[str] | None = None) -> None:
    """Run the command with these arguments, or those of the process. It ends the process.

    The exit status is 0; 1 for an error that the user can mend; 2 for wrong usage; 130 for Ctrl-C.
    """
    with one_line("mlml"):  # Ctrl-C before a command begins
        app(arguments, prog_name="mlml")


class _Command(TyperCommand):
    def invoke(self, ctx: Any) -> Any:
        with one_line(ctx.command_path):
            return super().invoke(ctx)


def _command(name: str, *examples: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return app.command(name, cls=_Command, epilog="\n".join(["\b", "Example:", *(f"  {line}" for line in examples)]))


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"mlml {version('mlml')}")
        raise typer.Exit


@app.callback()
def _top(
    debug: Annotated[bool, Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[bool, Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Multi-label image classification when most labels are missing: tools beside the pipeline."""
    if debug:
        os.environ[TRACEBACK] = "1"  # for other processes, too
    log_to_terminal()


@_command("check", "mlml check datasets/mine")
def _check(
    folder: Annotated[Path, Argument(metavar="FOLDER", help="The data set's folder, with its dataset.yaml.")],
    archives: Annotated[Path, Option(metavar="DIR", help="The folder of the downloaded archives.")] = _DOWNLOADED,
    labels_only: Annotated[bool, Option("--labels-only", help="Do not decode the pictures.")] = False,
) -> None:
    """See whether a data set can be used, without training.

    Reads the labels, decodes every picture, says all that is wrong at once, and prints a short profile.
    """
    from mlml.commands.check import check

    typer.echo(escaped("\n".join(check(folder, archives, not labels_only))))


@_command(
    "grid",
    "mlml grid runs.csv -S method=an,bce -S seed=0,1,2 -S train.lr=1e-3,3e-4 --jobs 2",
    "mlml grid runs.csv --grid paper/readings.yaml",
)
def _grid(
    results: Annotated[Path, Argument(metavar="RESULTS.csv", help="One row per run; runs already in it are skipped.")],
    words: Annotated[
        list[str] | None, Option("-S", metavar="NAME=VALUE,...", help="Values of a parameter; may be repeated.")
    ] = None,
    grid: Annotated[
        Path | None, Option("--grid", metavar="FILE", help="A YAML list of grids, each of lines `name: [value, ...]`.")
    ] = None,
    data: Annotated[Path, Option(metavar="DIR", help="The folder with the prepared labels.csv and images/.")] = _DATA,
    jobs: Annotated[int, Option(min=1, max=128, metavar="N", help="Number of runs at a time.")] = 1,
) -> None:
    """Run a grid of parameters on the prepared data set.

    Takes the names and values of `dvc exp run -S` and gives the same numbers; the data set is that of params.yaml. An
    interrupted command resumes where it was.
    """
    _in_project(Path("params.yaml"))
    if not (data / "labels.csv").is_file():
        raise ValueError(f"{data / 'labels.csv'} is missing: run `dvc repro prepare`")
    interrupt = signal.signal(signal.SIGINT, _quit)  # an exception in torch's imports can abort the process
    from mlml.commands import pool, prepared
    from mlml.commands.grid import grid_of, jobs_of, read_grids

    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, _stopped)
    prepared.check(data)
    changes, grids = grid_of(words or []), read_grids(grid) if grid else [{}]
    state = prepared.state(data)
    known = pool.done(results, state)
    all_jobs = {job.key: job for each in grids for job in jobs_of({**each, **changes})}
    wanted = [job for key, job in all_jobs.items() if key not in known]
    if len(wanted) < len(all_jobs):
        typer.echo(f"{results} has {len(all_jobs) - len(wanted)} of {len(all_jobs)} runs already", err=True)
    if failed := pool.run_all(wanted, data, state, jobs, results):
        raise ValueError(f"{failed} of {len(wanted)} runs have no result")


def _quit(number: int, frame: object) -> None:
    os.write(2, b"mlml grid: interrupted\n")
    os._exit(130)


def _stopped(number: int, frame: object) -> None:
    sys.exit("mlml grid: stopped; what is done is kept")


_Experiments = Annotated[
    Path,
    Argument(metavar="FILE", help="Experiments as `dvc exp show --csv` prints them; - is the standard input."),
]


@_command("results", "dvc exp show --csv | mlml results", "mlml results runs.csv")
def _results(file: _Experiments = Path("-")) -> None:
    """Tabulate each method's test mAP over the seeds.

    Prints a Markdown table of the mean and the spread, for each data set, setting and method.
    """
    experiments = _read(file)
    from mlml.commands.results import markdown, summarise

    typer.echo(markdown(summarise(experiments)))


@_command("select", "dvc exp show --csv | mlml select", "mlml select runs.csv --over-settings")
def _select(
    file: _Experiments = Path("-"),
    over_settings: Annotated[bool, Option("--over-settings", help="One choice per method for all settings.")] = False,
) -> None:
    """Choose each method's best parameters on validation.

    Prints a Markdown table of the values, such as learning rate and batch size, with the highest validation mAP.
    """
    experiments = _read(file)
    from mlml.commands.selection import markdown, remarks, select

    table = select(experiments, over_settings)
    typer.echo(markdown(table))
    _look_at(remarks(table))


@_command("table", "mlml table runs.csv", "mlml table runs.csv --validation --update docs/results.md 'my runs'")
def _table(
    results: Annotated[list[Path], Argument(metavar="RESULTS.csv", help="What `mlml grid` wrote, or DVC lists.")],
    validation: Annotated[bool, Option("--validation", help="The validation score of `mlml select`.")] = False,
    each_setting: Annotated[bool, Option("--each-setting", help="A learning rate for each setting.")] = False,
    update: Annotated[
        tuple[Path, str] | None,
        Option(metavar="PAGE PART", help="Put the table between the marks of this part of a page."),
    ] = None,
) -> None:
    """Tabulate methods by settings.

    Prints a Markdown table of the mean mAP over the seeds.

    A method's learning rate and batch size are those that win on validation: one choice for the settings in which the
    observed labels are a sample of all, and one for those in which they are present labels alone.
    """
    import pandas as pd

    from mlml.commands import markdown, tables

    runs = pd.concat([_read(file) for file in results], ignore_index=True)
    table, notes = tables.wide(runs, validation, each_setting)
    text = tables.markdown(table)
    typer.echo(text) if update is None else markdown.update(*update, text)
    _look_at(notes)


@_command("statistics", "mlml statistics voc2012=data/labels.csv --update docs/results.md")
def _statistics(
    tables: Annotated[
        list[str], Argument(metavar="DATASET=LABELS.csv", help="The labels.csv that the stage prepare wrote.")
    ],
    update: Annotated[
        Path | None, Option(metavar="PAGE", help="Put the table between the marks `statistics` in this page.")
    ] = None,
) -> None:
    """Compare the paper's counts of observed labels with ours.

    Prints Markdown tables. The published counts are those in the project's folder.
    """
    from mlml.commands import markdown, statistics

    named = dict(word.partition("=")[::2] for word in tables)
    if not all(named.values()):
        raise typer.BadParameter("must be DATASET=LABELS.csv", param_hint="DATASET=LABELS.csv")
    _in_project(statistics.PUBLISHED)
    compared = statistics.compare(statistics.PUBLISHED, {name: Path(file) for name, file in named.items()})
    text = statistics.markdown(compared)
    typer.echo(text) if update is None else markdown.update(update, "statistics", text)


def _read(file: Path) -> "pd.DataFrame":
    if str(file) == "-" and sys.stdin.isatty():
        raise typer.BadParameter("none, and nothing is piped in", param_hint="FILE")
    from mlml.commands.results import read

    return read(sys.stdin if str(file) == "-" else file)


def _in_project(file: Path) -> None:
    if not file.is_file():
        raise ValueError(f"{Path.cwd()} is no project folder: there is no {file}; go to your clone of the project")


def _look_at(remarks: list[str]) -> None:
    for remark in remarks:
        typer.echo(f"note: {remark}", err=True)
