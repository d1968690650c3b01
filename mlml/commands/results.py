"""The mean and spread of each method's test mAP over the seeds, from the experiments that DVC lists."""

import csv
import io
from collections.abc import Hashable
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pandas as pd

from mlml.commands.input_files import check_readable
from mlml.commands.markdown import pipe_table
from mlml.training.history import SCORES as VALIDATION

DATA = "data"
AXES = ["dataset", DATA, "setting", "method"]
_NEEDED = ("dataset", "setting", "method", "seed")
SCORES = ["mAP", "std", "lowest", "highest"]
_UNFINISHED = ("Running", "Queued", "Failed")
# Columns that do not say what was run; those with a slash are the hashes of files.
_NOT_PARAMETERS = {"Experiment", "rev", "typ", "Created", "parent", "State", "Executor", "seconds"}


def read(source: Path | TextIO) -> pd.DataFrame:
    """Read experiments, one row each, as ``dvc exp show --csv`` prints them.

    Raises:
        ValueError: it is no CSV table, or a row has more or fewer cells than the header.
        OSError: the file cannot be read.
    """
    name = source if isinstance(source, Path) else "standard input"
    if isinstance(source, Path):
        check_readable(source)
    try:
        text = source.read_text("utf-8-sig") if isinstance(source, Path) else source.read()
        header, *rows = list(csv.reader(io.StringIO(text))) or [[]]
        # pandas would shift the columns, or fill them.
        for number, row in enumerate(rows, 2):
            if row and len(row) != len(header):
                raise ValueError(f"row {number} has {len(row)} cells, the header {len(header)}")
        return pd.read_csv(io.StringIO(text), dtype=dict.fromkeys(AXES, str))  # of digits: a data set 2012, a hash
    except (ValueError, csv.Error) as error:
        raise ValueError(f"{name}: no table as `dvc exp show --csv` prints it; {str(error).strip()}") from None


def finished(experiments: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The runs that have a result, each once, and the names of the parameters, with their sections.

    Runs on several states of one data set, as before and after a label was corrected, have a column `DATA`, so that
    they are not taken for repetitions: that of `mlml grid`, or the first digits of the hash of the data set's folder;
    empty where that is not known.

    Args:
        experiments: see `read`. A run that is listed under several names counts once. DVC writes "!" for the metrics
            of a run whose file is missing, and those of the commit it started from for a run that has not ended.

    Raises:
        ValueError: a column is missing, there is no finished experiment, or one lacks a cell or has an infinite score.
    """
    missing = [column for column in (*_NEEDED, "mAP") if column not in experiments]
    if missing:
        raise ValueError(f"no column {missing[0]!r}: this is not the output of `dvc exp show --csv`")
    if "State" in experiments:
        experiments = experiments[~experiments["State"].isin(_UNFINISHED)]
    columns = [str(column) for column in experiments if column != DATA]
    identity = [column for column in columns if column not in _NOT_PARAMETERS and "/" not in column]
    scores = pd.to_numeric(experiments["mAP"], errors="coerce")
    done = experiments.assign(mAP=scores).dropna(subset=["mAP"])
    _check_cells(done)
    data = pd.Series([_state(row) for row in done.to_dict("records")], done.index)
    done = done.drop(columns=DATA, errors="ignore")
    if (data.groupby(done["dataset"]).nunique() > 1).any():
        done, identity = done.assign(**{DATA: data}), [*identity, DATA]
    done = done.drop_duplicates(identity).copy()
    if done.empty:
        raise ValueError("no experiment has a test mAP yet; `dvc exp run` makes one")
    # A parameter's name has a section; an axis and a metric have none.
    return done, [column for column in identity if "." in column]


def _state(row: dict[Hashable, Any]) -> str:
    """The state of a run's data set, empty if it is not known."""
    known = [row.get(DATA), row.get(f"datasets/{row['dataset']}")]
    return next((str(cell)[:7] for cell in known if not pd.isna(cell)), "")


def _check_cells(done: pd.DataFrame) -> None:
    for column in _NEEDED:
        if (empty := done[column].isna()).any():
            raise ValueError(f"a run with mAP {done['mAP'][empty].iloc[0]} has no {column}")
    for column in ("mAP", *VALIDATION):
        if column in done and np.isinf(pd.to_numeric(done[column], errors="coerce")).any():
            raise ValueError(f"a run has the {column} inf, which is no score")


def varied(runs: pd.DataFrame, parameters: list[str], groups: list[str]) -> list[str]:
    """Those of the `parameters` in which runs of the same `groups` differ."""
    grouped = runs.groupby(groups, dropna=False)
    return [column for column in parameters if (grouped[column].nunique(dropna=False) > 1).any()]


def check_once(runs: pd.DataFrame, keys: list[str]) -> None:
    """Check that no two runs have the same values of `keys`.

    Raises:
        ValueError: two have; names them.
    """
    twice = runs[runs.duplicated(keys, keep=False)]
    if len(twice):
        cells = twice[keys].astype(object).where(twice[keys].notna(), "")  # empty cells are equal
        first = twice[(cells == cells.iloc[0]).all(axis=1)]
        run = ", ".join(f"{key} {first[key].iloc[0]}" for key in keys)
        scores = " and ".join(map(str, first["mAP"].iloc[:2]))
        raise ValueError(f"two runs of {run} have mAP {scores}: other code? `dvc exp remove` one of them")


def summarise(experiments: pd.DataFrame) -> pd.DataFrame:
    """Mean and spread of the test mAP over the seeds of each data set, setting and method.

    Where runs with the same axes and seed differ in another parameter, that parameter becomes a column, and its
    values are not mixed.

    Args:
        experiments: see `finished`. Rows without a result are left out.

    Returns:
        one row per data set, setting and method, the best first within each setting: seeds, mAP (mean), std (sample
        standard deviation; NaN for one seed), lowest and highest; in percent.

    Raises:
        ValueError: as `finished`, or two runs with the same parameters have different results.
    """
    done, parameters = finished(experiments)
    axes = [axis for axis in AXES if axis in done]
    keys = [*axes, *varied(done, parameters, [*axes, "seed"])]
    check_once(done, [*keys, "seed"])
    scores = done.groupby(keys, dropna=False)["mAP"]
    table: pd.DataFrame = scores.agg(seeds="count", mAP="mean", std="std", lowest="min", highest="max").reset_index()
    return table.sort_values(["dataset", "setting", "mAP"], ascending=[True, True, False], ignore_index=True)


def markdown(table: pd.DataFrame) -> str:
    """The table of `summarise` as Markdown."""
    keys = [str(column) for column in table if column not in (*SCORES, "seeds")]
    rows = (
        [*(row[key] for key in keys), row["seeds"], *(f"{row[name]:.2f}" for name in SCORES)]
        for row in table.to_dict("records")
    )
    return pipe_table([*keys, "seeds", *SCORES], rows, len(keys))
