"""The figures."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, fontManager, get_font
from matplotlib.ticker import MaxNLocator
from pydantic import Field

from mlml import labels as lb
from mlml.core.files import atomic_write
from mlml.core.params import Section
from mlml.labels.table import Table

mpl.use("agg")
mpl.rcParams["text.parse_math"] = False  # names of classes and images may hold any character, also $

BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#bbbbbb"  # distinct for colour-blind readers, too (Okabe and Ito)
FONT = "DejaVu Sans"  # comes with matplotlib
_CHOSEN_BY = {
    "validation_mAP": "validation mAP, percent",
    "validation_mAP_an": "validation mAP, percent,\nunknown taken as absent",
    "validation_loss": "validation loss",
}


class PlotParams(Section):
    """Section ``plot`` of params.yaml.

    Attributes:
        seed: draws the training labels that `trajectories` shows.
        trajectories: number of these labels.
        format: file format.
        dpi: pixels an inch, for png.
    """

    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    trajectories: Annotated[int, Field(ge=1, le=60)] = 6
    format: Literal["png", "svg", "pdf"] = "png"
    dpi: Annotated[int, Field(ge=20, le=1200)] = 120


def average_precision(per_class: pd.DataFrame, mean: float) -> Figure:
    """Bar chart of each class's AP, best on top.

    Args:
        per_class: columns "class", "AP" (percent; NaN for a class that is left out of the mAP) and "left_out" (why).
        mean: mAP in percent.
    """
    ordered = per_class.sort_values("AP", na_position="first")
    figure, axes = _new(height=1.2 + 0.24 * len(ordered))
    axes.barh(range(len(ordered)), ordered["AP"].fillna(0), color=BLUE)
    _name_rows(axes, ordered["class"].astype(str).tolist())
    for row, reason in enumerate(ordered["left_out"][ordered["AP"].isna()]):
        axes.text(1, row, f"left out: {reason}", verticalalignment="center", fontsize="small")
    axes.axvline(mean, color=ORANGE, label=f"mAP {mean:.2f}")
    axes.set(xlabel="average precision on the test images, percent", xlim=(0, 100), ylim=(-0.7, len(ordered) - 0.3))
    figure.legend(loc="outside upper right")
    return figure


def learning_curve(history: pd.DataFrame, best: int) -> Figure:
    """Training loss by epoch, and the history's last column, which the epoch `best` was chosen by."""
    figure, axes = _new()
    chosen_by = str(history.columns[-1])
    axes.plot(history["epoch"], history["loss"], color=GREY, marker=".")
    axes.set(xlabel="epoch", ylabel="training loss (grey)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    right = axes.twinx()
    right.plot(history["epoch"], history[chosen_by], color=BLUE, marker=".")
    right.axvline(best, color=ORANGE, linestyle=":", label=f"best epoch: {best}")
    right.set_ylabel(f"{_CHOSEN_BY[chosen_by]} (blue)")
    figure.legend(loc="outside upper right")
    return figure


def label_statistics(observed: Table) -> Figure:
    """Bar chart of the observed positives, observed negatives and unknown labels of each class."""
    figure, axes = _new(height=1.2 + 0.24 * len(observed.classes))
    left = np.zeros(len(observed.classes))
    for value, name, color in (
        (lb.PRESENT, "present", ORANGE),
        (lb.ABSENT, "absent", BLUE),
        (lb.UNKNOWN, "unknown", GREY),
    ):
        counts = lb.count(observed.labels, value, axis=0)
        axes.barh(range(len(counts)), counts, left=left, color=color, label=f"{name}: {counts.sum()}")
        left += counts
    _name_rows(axes, observed.classes)
    axes.invert_yaxis()
    axes.set(xlabel="training images")
    figure.legend(loc="outside upper right", ncols=3)
    return figure


def trajectories(recorded: dict[str, np.ndarray], observed: Table, truth: Table, count: int, seed: int) -> Figure:
    """Predictions and pseudo labels of a few training labels by epoch (paper, Fig. 2).

    Shows unknown labels where there are any, half of them present in truth as far as possible.

    Args:
        recorded: the arrays that `mlml.training.trajectories.Recorder.save` wrote.
        observed, truth: tables of the training images.
        count: number of labels to show.
        seed: draws these labels.
    """
    rows, predictions, pseudo = (recorded[key] for key in ("rows", "predictions", "pseudo_labels"))
    chosen = _choose(observed.labels[rows], truth.labels[rows], count, np.random.RandomState(seed))
    across = min(3, len(chosen))
    down = -(-len(chosen) // across)
    figure = Figure(figsize=(7, 0.6 + 2.1 * down), layout="constrained")
    grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    for axes in grid.flat[len(chosen) :]:
        axes.set_visible(False)
    for axes, (image, column) in zip(grid.flat, chosen, strict=False):
        epochs = np.arange(1, len(predictions) + 1)
        axes.plot(epochs, predictions[:, image, column], color=BLUE, marker=".", label="prediction")
        if len(pseudo):
            axes.plot(np.arange(len(pseudo)), pseudo[:, image, column], color=ORANGE, label="pseudo label")
        state = {lb.PRESENT: "present", lb.ABSENT: "absent", lb.UNKNOWN: "unknown"}
        seen, true = (state[int(table.labels[rows[image], column])] for table in (observed, truth))
        name = f"{observed.images[rows[image]]}: {observed.classes[column]}"
        words = seen if true == state[lb.UNKNOWN] else f"{seen}, in truth {true}"
        axes.set_title(f"{_legible(name)}\n{words}", fontsize="small", fontfamily=_fonts(name))
        axes.set(ylim=(-0.03, 1.03), xlabel="epoch")
    handles, names = grid.flat[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2)
    return figure


def _choose(observed: lb.Labels, truth: lb.Labels, count: int, random: np.random.RandomState) -> list[tuple[int, int]]:
    """Draw `count` places of int8 [t, L], unknown labels if there are any, half of them present in truth."""
    order = random.permutation(observed.size)
    place = [(int(i // observed.shape[1]), int(i % observed.shape[1])) for i in order]
    unknown = [p for p in place if observed[p] == lb.UNKNOWN] or place
    others = [p for p in unknown if truth[p] != lb.PRESENT]
    present = [p for p in unknown if truth[p] == lb.PRESENT][: max(-(-count // 2), count - len(others))]
    return sorted(present + others[: count - len(present)], key=lambda p: (-int(truth[p]), p))


def save(figure: Figure, path: Path, dpi: int) -> None:
    """Write the figure in the format of the path's suffix. Equal figures give equal bytes."""
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix)
    with mpl.rc_context({"svg.hashsalt": "mlml"}), atomic_write(path) as part:
        figure.savefig(part, dpi=dpi, metadata=metadata)


def _new(height: float = 3.6) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7, height), layout="constrained")
    return figure, figure.subplots()


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Write names beside the bars 0, 1, ..."""
    axes.set_yticks(range(len(names)), [_legible(name) for name in names], fontfamily=_fonts("".join(names)))


def _legible(text: str) -> str:
    """The text, with an escape such as \\u4e2d for each character that no installed font has."""
    return "".join(char if _font(char) else char.encode("unicode_escape").decode() for char in text)


def _fonts(text: str) -> list[str]:
    """The names of fonts that together have all characters of the text that `_legible` leaves."""
    return list(dict.fromkeys([FONT, *filter(None, map(_font, text))]))


@cache
def _font(char: str) -> str | None:
    """The name of a font that has a character: matplotlib's own, else the first installed one by name, if any."""
    if not char.isprintable():
        return None
    return next((name for name, file in _font_files().items() if ord(char) in _characters(file)), None)


@cache
def _font_files() -> dict[str, str]:
    """The files of regular fonts by name, without those of matplotlib's own that are for formulas."""
    own, fonts = mpl.get_data_path(), sorted(fontManager.ttflist, key=lambda font: (font.name, font.fname))
    others = [font for font in fonts if not font.fname.startswith(own) and font.name != FONT]
    regular = {font.name: font.fname for font in others if font.style == "normal" and font.weight == 400}
    return {FONT: findfont(FONT), **regular}


@cache
def _characters(file: str) -> frozenset[int]:
    """The characters that a font has; none if it cannot be scaled, as one of pictures."""
    font = get_font(file)
    return frozenset(font.get_charmap()) if font.scalable else frozenset()
