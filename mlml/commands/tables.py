"""Methods by settings, as one table."""

import numpy as np
import pandas as pd

from mlml.commands.markdown import pipe_table
from mlml.commands.results import DATA, check_once, finished
from mlml.commands.selection import remarks, score_of, select
from mlml.settings import Setting

KINDS = ("fol", "as_is", "pol", "ppl", "spl")
OPTIONS = "method.options"
CHOSEN = ("train.lr", "train.batch_size")  # the paper's grid


def wide(runs: pd.DataFrame, validation: bool = False, each_setting: bool = False) -> tuple[pd.DataFrame, list[str]]:
    """Arrange runs as a table, and say what to know about it.

    A method has one row, and another with options that are not its defaults, or another parameter than most of its
    runs. Its learning rate and batch size are those that win on validation (`mlml.commands.selection`): one choice for
    the settings in which the observed labels are a sample of all, and one for those in which they are present labels
    alone, which not every method can learn from; or, as in the paper, one for each setting. A choice is made on the
    settings and seeds in which all candidates of the method were run. A cell is the mean over the seeds, with the
    sample standard deviation.

    Args:
        runs: one row per run, of one data set.
        validation: whether cells are of the validation score that `select` goes by, not of the test mAP.
        each_setting: whether there is a choice for each setting, not for each kind.

    Returns:
        one row per method, the best in the last column first, and a column per setting, most labels first; cells are
        text. And the remarks on the choices.

    Raises:
        ValueError: as `mlml.commands.selection.select`; the runs are of several data sets, or of several states of
            one; or they have no validation score in common.
    """
    done, parameters = finished(runs)
    if done["dataset"].nunique() > 1:
        raise ValueError(f"runs of several data sets: {', '.join(sorted(done['dataset'].unique()))}")
    if DATA in done:
        states = ", ".join(sorted(state or "not noted" for state in done[DATA].unique()))
        raise ValueError(f"runs on several states of the data: column {DATA!r} has {states}; take the rows of one")
    done["method"] = _labels(done, [name for name in parameters if name not in (*CHOSEN, "corrupt.seed")])
    check_once(done, ["method", "setting", *(name for name in (*CHOSEN, "corrupt.seed") if name in done), "seed"])
    chosen, notes = [], []
    together = done["setting"] if each_setting else done["setting"].map(_kind)
    for _, group in done.groupby([done["method"], together]):
        varied = [name for name in CHOSEN if name in group and group[name].nunique(dropna=False) > 1]
        if varied:
            choice = select(_shared(group, varied), over_settings=True)
            notes += remarks(choice)
            for name in varied:
                value = choice[name].iloc[0]
                group = group[group[name].isna() if pd.isna(value) else group[name] == value]
        chosen.append(group)
    shown, metric = pd.concat(chosen), "mAP"
    if validation:
        metric = score_of(shown)
        shown = shown.assign(**{metric: pd.to_numeric(shown.get(metric, np.nan), errors="coerce")})
        if shown[metric].isna().any():
            raise ValueError("the runs have no validation score in common: they chose their epochs by different ones")
        if metric != "validation_mAP":
            notes.append(f"the cells are {metric}, by which the epochs were chosen")
    loss = metric == "validation_loss"
    scores = shown.groupby(["method", "setting"])[metric].agg(["mean", "std", "count"])
    cells = scores.apply(_cell, axis=1, places=4 if loss else 1).unstack().fillna("")
    settings = sorted(cells.columns, key=_strength)
    order = scores["mean"].unstack().sort_values(settings[::-1], ascending=loss).index
    return cells.loc[order, settings], notes


def _labels(runs: pd.DataFrame, parameters: list[str]) -> pd.Series:
    """Each run's method, with its options and those parameters in which it is not like most runs of the method."""
    labels = runs["method"]
    for name in parameters:
        values = runs[name].astype(object).where(runs[name].notna(), "")
        if name == OPTIONS:
            labels = labels + " " + values
        else:
            other = values != values.groupby(runs["method"]).transform(lambda column: column.mode()[0])
            labels = labels.where(~other, labels + f" {name.rpartition('.')[2]}=" + values.astype(str))
    return labels.str.split().str.join(" ")


def _shared(runs: pd.DataFrame, varied: list[str]) -> pd.DataFrame:
    """The runs in those settings and seeds in which every candidate was run."""
    counts = runs.groupby(["setting", "seed"])[varied].transform(lambda column: column.nunique(dropna=False))
    everywhere = runs[varied].nunique(dropna=False)
    return runs[(counts == everywhere).all(axis=1)]


def _cell(scores: pd.Series, places: int) -> str:
    mean, spread, count = scores
    return f"{mean:.{places}f}" if count == 1 else f"{mean:.{places}f} ± {spread:.{places}f}"


def _kind(name: str) -> str:
    return str(Setting.parse(name).sampled)


def _strength(name: str) -> tuple[int, float]:
    """A key that sorts settings: fol first, then pol, ppl and spl, more labels before fewer."""
    setting = Setting.parse(name)
    return KINDS.index(setting.kind), -float(setting.rate or 0)


def markdown(table: pd.DataFrame) -> str:
    """The table of `wide` as Markdown."""
    rows = ([name, *row] for name, row in zip(table.index, table.to_numpy(), strict=True))
    return pipe_table(["method", *table.columns], rows, 1)
