import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlml.commands.selection import markdown, remarks, select
from tests.commands.conftest import Ended

LR, SIZE = "train.lr", "train.batch_size"


def grid(score: dict[tuple, float], seeds: tuple[int, ...] = (0,), **axes: str) -> pd.DataFrame:
    """Rows as of `dvc exp show --csv`; the test score is the opposite of the validation score."""
    about = {"dataset": "digits", "setting": "pol_02", "method": "an", **axes}
    rows = [
        {
            **about,
            "seed": seed,
            "corrupt.seed": 0,
            LR: lr,
            SIZE: size,
            "validation_mAP": value + seed,
            "mAP": 100 - value,
        }
        for ((lr, size), value), seed in itertools.product(score.items(), seeds)
    ]
    return pd.DataFrame(rows)


PAPER = list(itertools.product((1e-3, 1e-4, 1e-5, 1e-6), (8, 16)))


def test_the_papers_grid_is_decided_on_validation_alone() -> None:
    scores = dict(zip(PAPER, (50, 60, 55, 59, 40, 41, 42, 43), strict=True))
    row = select(grid(scores)).iloc[0]
    assert (row[LR], row[SIZE], row["validation_mAP"], row["mAP"]) == (1e-3, 16, 60, 40)
    assert (row["candidates"], row["incomplete"], row["runs"], row["lead"]) == (8, 0, 1, 1)
    assert row["edge"] == LR  # a higher rate was not tried; of two batch sizes one is always at the edge


@given(st.lists(st.integers(0, 10**6), min_size=16, max_size=16, unique=True), st.randoms())
def test_the_winner_is_the_highest_mean_in_any_order(values: list[int], random) -> None:
    tables = [grid(dict(zip(PAPER, values[8 * i : 8 * i + 8], strict=True))).assign(seed=i) for i in (0, 1)]
    rows = pd.concat(tables).sample(frac=1, random_state=random.randrange(2**32))
    means = np.mean([values[:8], values[8:]], axis=0)
    row = select(rows).iloc[0]
    assert row["validation_mAP"] == pytest.approx(means.max())
    if (means == means.max()).sum() == 1:
        assert (row[LR], row[SIZE]) == PAPER[int(means.argmax())]


def test_one_choice_for_each_setting_or_one_for_all() -> None:
    first = grid({(1e-3, 16): 50, (1e-4, 16): 40})
    second = grid({(1e-3, 16): 10, (1e-4, 16): 30}, setting="spl")
    both = pd.concat([first, second])
    assert select(both).set_index("setting")[LR].to_dict() == {"pol_02": 1e-3, "spl": 1e-4}
    table = select(both, over_settings=True)
    assert table[["method", LR, "runs", "validation_mAP"]].to_numpy().tolist() == [["an", 1e-4, 2, 35]]
    assert "setting" not in table


def test_a_candidate_that_lacks_a_run_is_left_out_and_named() -> None:
    rows = grid({(1e-3, 16): 50, (1e-4, 16): 40, (1e-5, 16): 30}, seeds=(0, 1))
    table = select(rows.drop(index=1))  # seed 1 of 1e-3 diverged
    assert table[LR].tolist() == [1e-4]
    assert remarks(table) == ["digits pol_02 an: 1 candidates left out, runs of theirs are missing"]
    with pytest.raises(ValueError, match="digits pol_02 an: no candidate has all 2 repetitions"):
        select(rows[(rows[LR] == 1e-3) & (rows["seed"] == 0) | (rows[LR] == 1e-4) & (rows["seed"] == 1)])


def test_unequal_grids_and_edges_are_said() -> None:
    an = grid({(1e-3, 16): 50, (1e-4, 16): 40, (1e-5, 16): 30})
    table = select(pd.concat([an, grid({(1e-3, 16): 50}, method="bce")]))
    assert remarks(table) == [
        "digits pol_02: bce had 1 candidates, an 3: no fair comparison",
        "digits pol_02 an: the best train.lr is at the edge of what was tried; a wider grid may be better",
    ]
    assert np.isnan(table.set_index("method").loc["bce", "lead"])


def test_a_default_is_a_candidate_and_single_runs_have_none() -> None:
    rows = grid({(None, 16): 50, (1e-4, 16): 40})
    table = select(rows)
    assert table[LR].isna().tolist() == [True]
    assert SIZE not in table
    assert "nan" not in markdown(table)
    alone = select(grid({(1e-3, 16): 50}))
    assert alone["candidates"].tolist() == [1]
    assert remarks(alone) == []


@pytest.mark.parametrize(("score", "rate"), [("validation_mAP_an", 1e-4), ("validation_loss", 1e-3)])
def test_what_chose_the_epochs_of_all_runs_chooses(score: str, rate: float, tmp_path: Path) -> None:
    rows = grid({(1e-3, 16): 50, (1e-4, 16): 40}).assign(**{score: [0.25, 0.75]})
    for shown in (rows, rows.drop(columns="validation_mAP")):
        row = select(shown).iloc[0]
        assert (row[LR], row["lead"]) == (rate, 0.5)
        assert row[score] == {1e-3: 0.25, 1e-4: 0.75}[rate]
    rows.loc[0, score] = np.nan  # a run that was chosen by its validation mAP
    assert select(rows).iloc[0][LR] == 1e-3


def test_other_draws_of_the_labels_are_repetitions_and_figures_are_nothing() -> None:
    rows = pd.concat([grid({(1e-3, 16): 50, (1e-4, 16): 45}).assign(**{"corrupt.seed": seed}) for seed in (0, 1)])
    rows["plot.dpi"] = [100, 120, 100, 120]
    row = select(rows).iloc[0]
    assert (row["runs"], row[LR]) == (2, 1e-3)
    assert "plot.dpi" not in row


def test_two_results_of_one_run_are_refused() -> None:
    rows = grid({(1e-3, 16): 50, (1e-4, 16): 40})
    with pytest.raises(ValueError, match=r"two runs of dataset .*, seed 0, .* have mAP"):
        select(pd.concat([rows, rows.assign(mAP=1.0)]))
    with pytest.raises(ValueError, match="no column 'validation_mAP'"):
        select(rows.drop(columns="validation_mAP"))


def test_as_a_command(tmp_path: Path, mlml: Callable[..., Ended]) -> None:
    file = tmp_path / "runs.csv"
    pd.concat([grid(dict(zip(PAPER[:6:2], (5, 4, 3), strict=True))), grid({PAPER[0]: 9}, setting="spl")]).to_csv(file)
    status, out, err = mlml("select", file)
    assert (status, out.splitlines()) == (
        0,
        [
            "| dataset | setting | method | train.lr | candidates | runs | validation_mAP | mAP | lead |",
            "|---|---|---|---|--:|--:|--:|--:|--:|",
            "| digits | pol_02 | an | 0.001 | 3 | 1 | 5.00 | 95.00 | 1.00 |",
            "| digits | spl | an | 0.001 | 1 | 1 | 9.00 | 91.00 | nan |",
        ],
    )
    assert err.startswith("note: digits pol_02 an: the best train.lr is at the edge")
    row = "| digits | an | 0.001 | 1 | 2 | 7.00 | 93.00 | nan |"
    assert mlml("select", file, "--over-settings").out.splitlines()[-1] == row


def test_many_parameters_make_no_warning(tmp_path: Path) -> None:
    """pandas reads each column apart, and warns of more than a hundred when one is added."""
    many = pd.DataFrame([{f"methods.an.x{number}": number for number in range(200)}] * 2)
    file = tmp_path / "experiments.csv"
    pd.concat([grid({(1e-3, 8): 50, (1e-4, 8): 60}), many], axis=1).to_csv(file, index=False)
    assert select(pd.read_csv(file)).iloc[0][LR] == 1e-4
