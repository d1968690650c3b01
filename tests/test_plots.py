"""The figures show the numbers of their tables, and the same numbers give the same file."""

import os
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from PIL import Image

from mlml import plots
from mlml.core.params import parse
from mlml.labels.table import Table

CLASSES = ("cat", "007", "7", "Käse", "a_b^c", "$\\frac$", "none at all")
PER_CLASS = pd.DataFrame(
    {
        "class": CLASSES,
        "AP": [50.5, 12.25, 99.0, 0.0, 70.0, 33.0, np.nan],
        "positives": range(7),
        "left_out": [*[""] * 6, "not known to be absent"],
    }
)
HISTORY = pd.DataFrame({"epoch": [1, 2, 3], "loss": [0.9, 0.5, 0.4], "validation_mAP": [20.0, 61.5, 60.0]})
IMAGES, EPOCHS = 30, 4


def tables(kind: str = "pol", seed: int = 0) -> tuple[Table, Table]:
    """(observed, truth) of 30 training images."""
    random = np.random.RandomState(seed)
    labels = np.where(random.random_sample((IMAGES, len(CLASSES))) < 0.2, 1, -1).astype(np.int8)
    labels[0, 0] = 1
    truth = Table(CLASSES, tuple(f"images/{i}.jpg" for i in range(IMAGES)), ("train",) * IMAGES, labels)
    hidden = random.random_sample(labels.shape) < {"fol": 0, "pol": 0.8}[kind]
    return Table(truth.classes, truth.images, truth.split, np.where(hidden, 0, labels).astype(np.int8)), truth


def record(pseudo: bool = True) -> dict[str, np.ndarray]:
    random = np.random.RandomState(1)
    rows = np.sort(random.permutation(IMAGES)[:20])
    predictions = random.random_sample((EPOCHS, 20, len(CLASSES))).astype(np.float32)
    beliefs = random.random_sample((EPOCHS + 1, 20, len(CLASSES))).astype(np.float32)
    return {"rows": rows, "predictions": predictions, "pseudo_labels": beliefs if pseudo else predictions[:0]}


FIGURES: dict[str, Callable[[], Figure]] = {
    "average_precision": lambda: plots.average_precision(PER_CLASS, 44.125),
    "learning_curve": lambda: plots.learning_curve(HISTORY, 2),
    "label_statistics": lambda: plots.label_statistics(tables()[0]),
    "trajectories": lambda: plots.trajectories(record(), *tables(), 2, 0),
    "trajectories_without": lambda: plots.trajectories(record(pseudo=False), *tables("fol"), 2, 0),
}


@pytest.mark.parametrize(
    ("name", "suffix"), [*((name, suffix) for name in FIGURES for suffix in ("png", "svg")), ("learning_curve", "pdf")]
)
def test_the_same_numbers_give_the_same_bytes(
    name: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i, when in enumerate((0, 10**9)):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", str(when))  # what files would be dated with
        plots.save(FIGURES[name](), tmp_path / f"{i}.{suffix}", 30)
    content = (tmp_path / f"0.{suffix}").read_bytes()
    assert content == (tmp_path / f"1.{suffix}").read_bytes()
    assert content.lstrip()[:5] in {"png": [b"\x89PNG\r"], "svg": [b"<?xml"], "pdf": [b"%PDF-"]}[suffix]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"0.{suffix}", f"1.{suffix}"]


def test_dpi_is_the_size_of_a_png_which_replaces_the_old_file(tmp_path: Path) -> None:
    for dpi in (50, 100):
        plots.save(FIGURES["learning_curve"](), tmp_path / "x.png", dpi)
        os.link(tmp_path / "x.png", tmp_path / f"cached {dpi}.png")
    for dpi in (50, 100):
        with Image.open(tmp_path / f"cached {dpi}.png") as image:
            assert image.width == 7 * dpi


def bars(container: BarContainer) -> list[tuple[float, float]]:
    """(left, width) of each bar, from the first drawn to the last."""
    return [(bar.get_x(), bar.get_width()) for bar in container]


def texts(axes: Axes) -> list[str]:
    (legend,) = axes.figure.legends
    return [text.get_text() for text in legend.get_texts()]


def test_average_precision_shows_each_class_the_best_on_top() -> None:
    (axes,) = plots.average_precision(PER_CLASS, 44.125).axes
    (container,) = axes.containers
    assert isinstance(container, BarContainer)
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["none at all", "Käse", "007", "$\\frac$", "cat", "a_b^c", "7"]
    assert bars(container) == [(0, width) for width in (0.0, 0.0, 12.25, 33.0, 50.5, 70.0, 99.0)]
    heights = [bar.get_y() + bar.get_height() / 2 for bar in container]
    assert heights == pytest.approx(range(7))
    (words,) = axes.texts
    assert (words.get_text(), words.get_position()[1]) == ("left out: not known to be absent", 0)
    assert axes.get_ylim()[0] < 0 and axes.get_ylim()[1] > 6 and axes.get_xlim() == (0, 100)
    assert [list(line.get_xdata()) for line in axes.lines] == [[44.125, 44.125]]
    assert texts(axes) in (["mAP 44.12"], ["mAP 44.13"])


def test_learning_curve_shows_the_history() -> None:
    left, right = plots.learning_curve(HISTORY, 2).axes
    (loss,), (mean, best) = left.lines, right.lines
    assert list(loss.get_xdata()) == list(mean.get_xdata()) == [1, 2, 3]
    assert all(tick == int(tick) for tick in left.get_xticks())
    assert list(loss.get_ydata()) == [0.9, 0.5, 0.4]
    assert list(mean.get_ydata()) == [20.0, 61.5, 60.0]
    assert list(best.get_xdata()) == [2, 2]
    assert texts(right) == ["best epoch: 2"]


def test_learning_curve_shows_what_the_epoch_was_chosen_by() -> None:
    history = HISTORY.assign(validation_mAP=np.nan, validation_mAP_an=[5.0, 6.0, 4.0])
    _, right = plots.learning_curve(history, 2).axes
    assert list(right.lines[0].get_ydata()) == [5.0, 6.0, 4.0]
    assert right.get_ylabel() == "validation mAP, percent,\nunknown taken as absent (blue)"


def font_with(sign: str, path: Path) -> Path:
    """Make up a font that has one sign."""
    pen = TTGlyphPen(None)
    pen.moveTo((0, 0))
    pen.lineTo((0, 700))
    pen.lineTo((500, 0))
    pen.closePath()
    builder = FontBuilder(1000)
    builder.setupGlyphOrder([".notdef", "sign"])
    builder.setupCharacterMap({ord(sign): "sign"})
    builder.setupGlyf({".notdef": TTGlyphPen(None).glyph(), "sign": pen.glyph()})
    builder.setupHorizontalMetrics({".notdef": (500, 0), "sign": (600, 0)})
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": "Cuneiform", "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(path)
    return path


def test_names_in_any_script_are_legible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a font that has the signs, else escaped; nothing warns, nor is a formula."""
    sign, lacking = "\U00012000", "\U00012001"
    own = [font for font in fontManager.ttflist if font.fname.startswith(mpl.get_data_path())]
    monkeypatch.setattr(fontManager, "ttflist", own)
    fontManager.addfont(font_with(sign, tmp_path / "font.ttf"))
    for cached in (plots._font, plots._font_files):
        cached.cache_clear()
    names = (sign, f"a {lacking}", "$x_1$\t")
    shown = [sign, "a \\U00012001", "$x_1$\\t"]
    one = Table(names, names, ("train",) * 3, np.zeros((3, 3), np.int8))
    recorded = {"rows": np.arange(3), "predictions": np.zeros((2, 3, 3)), "pseudo_labels": np.zeros((0, 3, 3))}
    bars = plots.average_precision(pd.DataFrame({"class": names, "AP": [1.0, 2, 3], "left_out": ""}), 2)
    counts, lines = plots.label_statistics(one), plots.trajectories(recorded, one, one, 9, 0)
    for figure in (bars, counts):
        labels = figure.axes[0].get_yticklabels()
        assert [label.get_text() for label in labels] == shown
        assert {tuple(label.get_fontfamily()) for label in labels} == {("DejaVu Sans", "Cuneiform")}
    titles = {f"{image}: {name}\nunknown" for image in shown for name in shown}  # not known in truth either
    assert {axes.get_title() for axes in lines.axes} == titles
    for number, figure in enumerate((bars, counts, lines)):
        plots.save(figure, tmp_path / f"{number}.png", 50)
    for cached in (plots._font, plots._font_files):
        cached.cache_clear()


@pytest.mark.parametrize("kind", ["pol", "fol"])
def test_label_statistics_count_the_labels(kind: str) -> None:
    observed, _ = tables(kind)
    (axes,) = plots.label_statistics(observed).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == list(CLASSES)
    bottom, top = axes.get_ylim()
    assert bottom > top  # the first class is on top
    columns = [observed.labels[:, j].tolist() for j in range(len(CLASSES))]
    left = [0] * len(CLASSES)
    for container, value in zip(axes.containers, (1, -1, 0), strict=True):
        assert isinstance(container, BarContainer)
        counts = [column.count(value) for column in columns]
        assert bars(container) == list(zip(left, counts, strict=True))
        left = [before + count for before, count in zip(left, counts, strict=True)]
    assert left == [IMAGES] * len(CLASSES)
    total = observed.labels.ravel().tolist()
    assert texts(axes) == [f"{name}: {total.count(v)}" for name, v in (("present", 1), ("absent", -1), ("unknown", 0))]


def shown(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.get_visible()]


def place(axes: Axes) -> tuple[int, int, str]:
    """(training row, class, state of the label) of a panel's title."""
    name, label_state = axes.get_title().split("\n")
    image, _, of = name.partition(": ")
    return int(image.removeprefix("images/").removesuffix(".jpg")), CLASSES.index(of), label_state


@pytest.mark.parametrize("pseudo", [True, False])
@pytest.mark.parametrize("kind", ["pol", "fol"])
@pytest.mark.parametrize("count", [1, 2, 6, 7])
def test_trajectories_are_the_recorded_ones(count: int, kind: str, pseudo: bool) -> None:
    recorded, (observed, truth) = record(pseudo), tables(kind)
    figure = plots.trajectories(recorded, observed, truth, count, 0)
    panels = shown(figure)
    places = [place(axes) for axes in panels]
    assert len(panels) == len({place[:2] for place in places}) == count
    state = {1: "present", -1: "absent", 0: "unknown"}
    for axes, (row, column, label_state) in zip(panels, places, strict=True):
        t = recorded["rows"].tolist().index(row)
        prediction, *more = axes.lines
        assert list(prediction.get_xdata()) == [1, 2, 3, 4]
        assert np.array_equal(prediction.get_ydata(), recorded["predictions"][:, t, column])
        assert len(more) == pseudo
        for line in more:  # the first value is that before the first epoch
            assert list(line.get_xdata()) == [0, 1, 2, 3, 4]
            assert np.array_equal(line.get_ydata(), recorded["pseudo_labels"][:, t, column])
            assert to_hex(line.get_color()) != to_hex(prediction.get_color())
        seen, real = (state[int(table.labels[row, column])] for table in (observed, truth))
        assert label_state == f"{seen}, in truth {real}"
    # Where labels are unknown, these are shown; half of them, rounded up, are present in truth.
    assert {observed.labels[place[:2]] for place in places} <= ({0} if kind == "pol" else {1, -1})
    assert sum(truth.labels[place[:2]] == 1 for place in places) == (count + 1) // 2
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["prediction", "pseudo label"][: 1 + pseudo]


def test_the_seed_chooses() -> None:
    def places(seed: int) -> list[tuple[int, int, str]]:
        return [place(axes) for axes in shown(plots.trajectories(record(), *tables(), 6, seed))]

    assert places(0) == places(0)
    assert len({tuple(places(seed)) for seed in range(4)}) == 4


SHARE = st.floats(0, 1)


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 12), st.integers(1, 9), SHARE, SHARE)
def test_choice(seed: int, count: int, images: int, classes: int, share: float, known: float) -> None:
    random = np.random.RandomState(seed)
    truth = np.where(random.random_sample((images, classes)) < share, 1, -1).astype(np.int8)
    observed = np.where(random.random_sample(truth.shape) < known, truth, 0).astype(np.int8)
    chosen = plots._choose(observed, truth, count, random)
    eligible = observed == 0 if (observed == 0).any() else np.ones_like(observed, bool)
    present, absent = (int((eligible & (truth == value)).sum()) for value in (1, -1))
    assert len(chosen) == len(set(chosen)) == min(count, present + absent)
    assert all(eligible[place] for place in chosen)
    got = sum(int(truth[place] == 1) for place in chosen)
    half = (count + 1) // 2
    # Half of each; where there are too few of one kind, the other kind fills up.
    assert got == min(present, max(half, count - absent))


def test_a_short_supply_is_drawn_without_empty_panels() -> None:
    observed, truth = (table.take(np.arange(1)) for table in tables())
    recorded = {key: array[:, :1] for key, array in record().items() if key != "rows"}
    figure = plots.trajectories({**recorded, "rows": np.array([0])}, observed, truth, 60, 0)
    assert len(shown(figure)) == int((observed.labels == 0).sum())


@pytest.mark.parametrize(
    "values", [{"format": "jpg"}, {"trajectories": 0}, {"trajectories": 61}, {"dpi": 19}, {"seed": -1}]
)
def test_parameters(values: dict[str, object]) -> None:
    ((key, value),) = values.items()
    with pytest.raises(ValueError, match=rf"^plot\.{key}: {value!r} is not allowed; must be [^\n]*$"):
        parse(plots.PlotParams, values, "plot")
