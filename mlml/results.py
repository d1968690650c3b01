"""Experiments in, a table of results out: ``dvc exp show --csv | python -m mlml.results``."""

import sys

import pandas as pd

RUN = ["dataset", "setting", "method"]


def summarise(experiments: pd.DataFrame) -> pd.DataFrame:
    """Mean and spread of the test mAP over the seeds of each data set, setting and method.

    Args:
        experiments: what ``dvc exp show --csv`` prints, one row an experiment. Rows without a result are left
            out; of rows with the same axes and seed, which is one run under several names, one counts.

    Returns:
        one row a data set, setting and method, the best first within each setting: seeds, mAP (mean), std (sample
        standard deviation; nan for one seed), lowest and highest; in percent.

    Raises:
        ValueError: a column is missing, or there is no finished experiment.
    """
    missing = [column for column in (*RUN, "seed", "mAP") if column not in experiments]
    if missing:
        raise ValueError(f"no column {missing[0]!r}: this is not the output of `dvc exp show --csv`")
    done = experiments.dropna(subset=["mAP"]).drop_duplicates([*RUN, "seed"])
    if done.empty:
        raise ValueError("no experiment has a test mAP yet; `dvc exp run` makes one")
    groups = done.groupby(RUN)["mAP"]
    table = groups.agg(seeds="count", mAP="mean", std="std", lowest="min", highest="max").reset_index()
    return table.sort_values(["dataset", "setting", "mAP"], ascending=[True, True, False], ignore_index=True)


def markdown(table: pd.DataFrame) -> str:
    """The table of `summarise` as Markdown."""
    lines = [
        "| data set | setting | method | seeds | mAP | std | lowest | highest |",
        "|---|---|---|--:|--:|--:|--:|--:|",
    ]
    for row in table.to_dict("records"):
        figures = [f"{row[name]:.2f}" for name in ("mAP", "std", "lowest", "highest")]
        cells = [row["dataset"], row["setting"], row["method"], row["seeds"], *figures]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    try:
        print(markdown(summarise(pd.read_csv(sys.stdin))))
    except ValueError as fault:
        sys.exit(f"results: {fault}")
