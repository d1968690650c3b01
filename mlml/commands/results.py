"""Experiments in, a table of results out: ``dvc exp show --csv | python -m mlml.commands.results``."""

import sys
from collections.abc import Iterable

import pandas as pd

RUN = ["dataset", "setting", "method"]
SCORES = ["mAP", "std", "lowest", "highest"]
_UNFINISHED = ("Running", "Queued", "Failed")
# Columns of `dvc exp show` that do not say what was run; those with a slash are the hashes of files.
_ABOUT = {"Experiment", "rev", "typ", "Created", "parent", "State", "Executor"}


def finished(experiments: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The runs that have a result, each once, and the names of the parameters, with their sections.

    Args:
        experiments: what ``dvc exp show --csv`` prints, one row an experiment. A run that is listed under several
            names counts once. DVC writes "!" for the metrics of a run whose file is missing, and those of the commit it
            started from for a run that has not ended.

    Raises:
        ValueError: a column is missing, or there is no finished experiment.
    """
    missing = [column for column in (*RUN, "seed", "mAP") if column not in experiments]
    if missing:
        raise ValueError(f"no column {missing[0]!r}: this is not the output of `dvc exp show --csv`")
    if "State" in experiments:
        experiments = experiments[~experiments["State"].isin(_UNFINISHED)]
    columns = [str(column) for column in experiments]
    what = [column for column in columns if column not in _ABOUT and "/" not in column]
    scores = pd.to_numeric(experiments["mAP"], errors="coerce")
    done = experiments.assign(mAP=scores).dropna(subset=["mAP"]).drop_duplicates(what).copy()
    if done.empty:
        raise ValueError("no experiment has a test mAP yet; `dvc exp run` makes one")
    # A parameter's name has a section; what has none is an axis or a metric.
    return done, [column for column in what if "." in column]


def varied(runs: pd.DataFrame, parameters: list[str], groups: list[str]) -> list[str]:
    """Those of the `parameters` in which runs of the same `groups` differ."""
    grouped = runs.groupby(groups, dropna=False)
    return [column for column in parameters if (grouped[column].nunique(dropna=False) > 1).any()]


def check_once(runs: pd.DataFrame, keys: list[str]) -> None:
    """See that no two of the runs have the same values of `keys`.

    Raises:
        ValueError: two have; names them.
    """
    twice = runs[runs.duplicated(keys, keep=False)]
    if len(twice):
        first = twice[(twice[keys].astype(str) == twice[keys].astype(str).iloc[0]).all(axis=1)]
        run = ", ".join(f"{key} {first[key].iloc[0]}" for key in keys)
        found = " and ".join(map(str, first["mAP"].iloc[:2]))
        raise ValueError(f"two runs of {run} have mAP {found}: other code? `dvc exp remove` one of them")


def summarise(experiments: pd.DataFrame) -> pd.DataFrame:
    """Mean and spread of the test mAP over the seeds of each data set, setting and method.

    Where runs with the same axes and seed differ in another parameter, that parameter becomes a column, and its
    values are not mixed.

    Args:
        experiments: see `finished`. Rows without a result are left out.

    Returns:
        one row a data set, setting and method, the best first within each setting: seeds, mAP (mean), std (sample
        standard deviation; NaN for one seed), lowest and highest; in percent.

    Raises:
        ValueError: as `finished`, or two runs with the same parameters have different results.
    """
    done, parameters = finished(experiments)
    keys = [*RUN, *varied(done, parameters, [*RUN, "seed"])]
    check_once(done, [*keys, "seed"])
    scores = done.groupby(keys, dropna=False)["mAP"]
    table: pd.DataFrame = scores.agg(seeds="count", mAP="mean", std="std", lowest="min", highest="max").reset_index()
    return table.sort_values(["dataset", "setting", "mAP"], ascending=[True, True, False], ignore_index=True)


def pipe_table(header: Iterable[object], rows: Iterable[Iterable[object]], words: int) -> str:
    """A Markdown table whose first `words` columns are text, the others numbers."""
    header = list(header)
    lines = [f"| {' | '.join(map(str, header))} |", "|---" * words + "|--:" * (len(header) - words) + "|"]
    return "\n".join(lines + [f"| {' | '.join(map(str, row))} |" for row in rows])


def markdown(table: pd.DataFrame) -> str:
    """The table of `summarise` as Markdown."""
    keys = [str(column) for column in table if column not in (*SCORES, "seeds")]
    rows = (
        [*(row[key] for key in keys), row["seeds"], *(f"{row[name]:.2f}" for name in SCORES)]
        for row in table.to_dict("records")
    )
    return pipe_table([*keys, "seeds", *SCORES], rows, len(keys))


if __name__ == "__main__":
    try:
        print(markdown(summarise(pd.read_csv(sys.stdin))))
    except ValueError as fault:
        sys.exit(f"results: {fault}")
