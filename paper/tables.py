"""Methods by settings: what `paper.runs`, or ``dvc exp show --csv``, gave, as one table in Markdown.

``python -m paper.tables RESULTS.csv --update docs/results.md photos``

A method has one row, and another with options that are not its defaults, or another parameter than most of its runs.
Its learning rate and batch size are those that win on validation (`mlml.commands.selection`): one choice for the
settings in which the observed labels are a sample of all, and one for those in which they are present labels alone,
which not every method can learn from; or, as in the paper, one for each setting. A cell is the mean test mAP over
the seeds, with the sample standard deviation.
"""

import argparse
import sys
from pathlib import Path

import pandas as pd

from mlml.commands.results import finished, pipe_table
from mlml.commands.selection import remarks, select
from mlml.settings import Setting
from paper import marks

KINDS = ("fol", "as_is", "pol", "ppl", "spl")
OPTIONS = "method.options"
CHOSEN = ("train.lr", "train.batch_size")  # the paper's grid


def wide(runs: pd.DataFrame, metric: str = "mAP", each_setting: bool = False) -> tuple[pd.DataFrame, list[str]]:
    """The table, and what to know about it.

    A choice is made on those settings and seeds that all of a method's candidates were run in.

    Args:
        runs: one row a run, of one data set.
        metric: "mAP" (test) or "validation_mAP".
        each_setting: whether there is a choice for each setting, not for each kind.

    Returns:
        one row a method, the best in the last column first, and a column a setting, most labels first; cells are
        text.

    Raises:
        ValueError: as `mlml.commands.selection.select`, or the runs are of several data sets.
    """
    done, parameters = finished(runs)
    if done["dataset"].nunique() > 1:
        raise ValueError(f"runs of several data sets: {', '.join(sorted(done['dataset'].unique()))}")
    done["method"] = _labels(done, [name for name in parameters if name not in (*CHOSEN, "corrupt.seed")])
    chosen, notes = [], []
    together = done["setting"] if each_setting else done["setting"].map(_kind)
    for _, own in done.groupby([done["method"], together]):
        varied = [name for name in CHOSEN if name in own and own[name].nunique(dropna=False) > 1]
        if varied:
            choice = select(_shared(own, varied), over_settings=True)
            notes += remarks(choice)
            for name in varied:
                value = choice[name].iloc[0]
                own = own[own[name].isna() if pd.isna(value) else own[name] == value]
        chosen.append(own)
    best = pd.concat(chosen)
    scores = best.groupby(["method", "setting"])[metric].agg(["mean", "std", "count"])
    cells = scores.apply(_cell, axis=1).unstack().fillna("")
    settings = sorted(cells.columns, key=_strength)
    order = scores["mean"].unstack().sort_values(settings[::-1], ascending=False).index
    return cells.loc[order, settings], notes


def _labels(runs: pd.DataFrame, parameters: list[str]) -> pd.Series:
    """Each run's method, with its options and those parameters in which it is not like most runs of the method."""
    labels = runs["method"]
    for name in parameters:
        values = runs[name].astype(object).where(runs[name].notna(), "")
        if name == OPTIONS:
            labels = labels + " " + values
        else:
            other = values != values.groupby(runs["method"]).transform(lambda own: own.mode()[0])
            labels = labels.where(~other, labels + f" {name.rpartition('.')[2]}=" + values.astype(str))
    return labels.str.split().str.join(" ")


def _shared(runs: pd.DataFrame, varied: list[str]) -> pd.DataFrame:
    """The runs in those settings and seeds in which every candidate was run."""
    where = ["setting", "seed"]
    counts = runs.groupby(where)[varied].transform(lambda column: column.nunique(dropna=False))
    everywhere = runs[varied].nunique(dropna=False)
    return runs[(counts == everywhere).all(axis=1)]


def _cell(scores: pd.Series) -> str:
    mean, spread, count = scores
    return f"{mean:.1f}" if count == 1 else f"{mean:.1f} ± {spread:.1f}"


def _kind(name: str) -> str:
    return str(Setting.parse(name).sampled)


def _strength(name: str) -> tuple[int, float]:
    """fol first, then pol, ppl and spl, more labels before fewer."""
    setting = Setting.parse(name)
    return KINDS.index(setting.kind), -float(setting.rate or 0)


def markdown(table: pd.DataFrame) -> str:
    """The table of `wide` as Markdown."""
    rows = ([name, *row] for name, row in zip(table.index, table.to_numpy(), strict=True))
    return pipe_table(["method", *table.columns], rows, 1)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m paper.tables", description=__doc__.partition("\n\n")[0])
    parser.add_argument("results", type=Path, nargs="+", metavar="RESULTS.csv")
    parser.add_argument("--validation", action="store_true", help="validation mAP instead of test mAP")
    parser.add_argument("--each-setting", action="store_true", help="a learning rate for each setting")
    parser.add_argument("--update", nargs=2, metavar=("PAGE", "PART"), help="put the table between the marks of PART")
    arguments = parser.parse_args()
    try:
        runs = pd.concat([pd.read_csv(file) for file in arguments.results])
        table, notes = wide(runs, "validation_mAP" if arguments.validation else "mAP", arguments.each_setting)
        text = markdown(table)
        print(text) if arguments.update is None else marks.update(Path(arguments.update[0]), arguments.update[1], text)
    except (ValueError, OSError) as error:
        sys.exit(f"tables: {error}")
    for note in notes:
        print(f"look at: {note}", file=sys.stderr)


if __name__ == "__main__":
    main()
