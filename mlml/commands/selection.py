"""The hyper-parameters that win on validation, method by method (paper, Sec. V-D)."""

import numpy as np
import pandas as pd

from mlml.commands.markdown import pipe_table
from mlml.commands.results import AXES, check_once, finished, varied
from mlml.training.history import SCORES

# Sections whose parameters are no candidates: another draw of the labels is a repetition, a figure changes nothing.
_NO_CANDIDATES = ("corrupt.", "plot.")
# What runs with partial validation labels may have chosen their epochs by, instead of validation_mAP.
_INSTEAD = ("validation_mAP_an", "validation_loss")


def select(experiments: pd.DataFrame, over_settings: bool = False) -> pd.DataFrame:
    """Choose the parameters with the highest validation mAP for each data set, setting and method.

    Where all runs chose their epochs by another validation score, that one counts.

    Candidates are the values of all parameters in which runs of the same axes differ, such as train.lr and
    train.batch_size. A candidate counts by its mean over the repetitions (seeds, draws of the labels; with
    `over_settings` the settings too), and only if it has all repetitions that another candidate of the method has. Of
    equal candidates the first in the order of the values wins. Test scores take no part.

    Args:
        experiments: see `mlml.commands.results.finished`.
        over_settings: whether a method gets one choice for all settings.

    Returns:
        one row a choice: the axes, a column for each candidate parameter, `candidates` (how many were compared),
        `incomplete` (how many lack repetitions), `runs` of the winner, its `validation_mAP` (or the other score) and
        test `mAP`, `lead` (how much better its validation score is than the second's; NaN for a single candidate) and
        `edge`: the numeric parameters whose chosen value is the lowest or highest that was tried, out of three or more.

    Raises:
        ValueError: as `finished`; a column is missing, no candidate has all repetitions, or a run is listed with two
            results.
    """
    done, parameters = finished(experiments)
    if not set(SCORES) & set(done):
        raise ValueError("no column 'validation_mAP': this is not the output of `dvc exp show --csv`")
    done = done.assign(**{name: pd.to_numeric(done.get(name, np.nan), errors="coerce") for name in SCORES})
    chosen = [name for name in parameters if not name.startswith(_NO_CANDIDATES)]
    axes = [axis for axis in AXES if axis in done and not (over_settings and axis == "setting")]
    chosen = varied(done, chosen, axes)
    repetitions = [name for name in ("seed", "corrupt.seed", "setting") if name in done and name not in axes]
    check_once(done, [*axes, *chosen, *repetitions])
    rows = [_winner(group, axes, chosen, repetitions) for _, group in done.groupby(axes)]
    return pd.DataFrame(rows)


def score_of(runs: pd.DataFrame) -> str:
    """The validation score that choices among these runs go by: what all of them chose their epochs by."""
    return next((name for name in _INSTEAD if name in runs and runs[name].notna().all()), "validation_mAP")


def _winner(runs: pd.DataFrame, axes: list[str], chosen: list[str], repetitions: list[str]) -> dict[str, object]:
    place = {axis: runs[axis].iloc[0] for axis in axes}
    wanted = len(runs[repetitions].drop_duplicates())
    # A constant beside the parameters: grouping by nothing is an error, and one candidate is a selection too.
    grouped = runs.assign(_all=0).groupby([*chosen, "_all"], dropna=False)
    score = score_of(runs)
    means = grouped[[score, "mAP"]].mean().assign(runs=grouped.size()).reset_index()
    complete = means[(means["runs"] == wanted) & means[score].notna()]
    complete = complete.sort_values(score, ascending=score == "validation_loss", kind="stable")
    if complete.empty:
        name = " ".join(map(str, place.values()))
        raise ValueError(f"{name}: no candidate has all {wanted} repetitions (seeds, settings) that others have")
    best, scores = complete.iloc[0], complete[score]
    return {
        **place,
        **{name: best[name] for name in chosen},
        "candidates": len(complete),
        "incomplete": len(means) - len(complete),
        "runs": wanted,
        score: best[score],
        "mAP": best["mAP"],
        "lead": abs(scores.iloc[0] - scores.iloc[1]) if len(scores) > 1 else float("nan"),
        "edge": ", ".join(name for name in chosen if _at_edge(complete[name], best[name])),
    }


def _at_edge(tried: pd.Series, value: object) -> bool:
    """Whether `value` is the lowest or highest of three or more numbers."""
    numbers = pd.to_numeric(tried.drop_duplicates(), errors="coerce")
    return len(numbers) > 2 and bool(numbers.notna().all()) and value in (numbers.min(), numbers.max())


def remarks(table: pd.DataFrame) -> list[str]:
    """What makes a comparison of methods by these choices unfair: unequal grids, incomplete candidates, edges."""
    lines = []
    axes = [axis for axis in AXES if axis in table]
    for place, group in table.groupby([axis for axis in axes if axis != "method"]):
        counts = group.set_index("method")["candidates"]
        if counts.nunique() > 1:
            few, many = counts.idxmin(), counts.idxmax()
            lines.append(
                f"{' '.join(map(str, place))}: {few} had {counts.min()} candidates, {many} {counts.max()}: no fair "
                "comparison"
            )
    for row in table.to_dict("records"):
        name = " ".join(str(row[axis]) for axis in axes)
        if row["incomplete"]:
            lines.append(f"{name}: {row['incomplete']} candidates left out, runs of theirs are missing")
        if row["edge"]:
            lines.append(f"{name}: the best {row['edge']} is at the edge of what was tried; a wider grid may be better")
    return lines


def markdown(table: pd.DataFrame) -> str:
    """The table of `select` as Markdown."""
    shown = table.drop(columns=["edge", "incomplete"])
    scores = (*SCORES, "mAP", "lead")
    rows = (
        [f"{row[name]:.2f}" if name in scores else "" if pd.isna(row[name]) else row[name] for name in shown]
        for row in shown.to_dict("records")
    )
    return pipe_table(shown, rows, list(shown).index("candidates"))
