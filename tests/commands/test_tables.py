import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mlml.commands import selection
from mlml.commands.markdown import marked
from mlml.commands.tables import markdown, wide
from tests.commands.conftest import Ended
from tests.test_architecture import ROOT


def runs(method: str, setting: str, scores: list[float], lr: float = 1e-3, options: str | None = None) -> pd.DataFrame:
    """A row a seed; the validation score is 100 minus the test score."""
    about = {"dataset": "photos", "setting": setting, "method": method, "method.options": options, "train.lr": lr}
    rows = [{**about, "seed": seed, "validation_mAP": 100 - s, "mAP": s} for seed, s in enumerate(scores)]
    return pd.DataFrame(rows)


def test_settings_by_strength_methods_by_the_last_one() -> None:
    tables = [
        runs("an", "spl", [30.0]),
        runs("bce", "spl", [20.0, 24.0]),
        runs("bce", "fol", [90.0]),
        runs("an", "pol_02", [10.0]),
        runs("bce", "pol_02", [15.0]),
        runs("an", "ppl_04", [1.0]),
        runs("an", "pol_08", [1.0]),
    ]
    table, notes = wide(pd.concat(tables))
    assert notes == []
    spread = np.std([20, 24], ddof=1)
    assert markdown(table).splitlines() == [
        "| method | fol | pol_08 | pol_02 | ppl_04 | spl |",
        "|---|--:|--:|--:|--:|--:|",
        "| an |  | 1.0 | 10.0 | 1.0 | 30.0 |",
        f"| bce | 90.0 |  | 15.0 |  | 22.0 ± {spread:.1f} |",
    ]


def test_one_learning_rate_for_a_kind_of_setting_chosen_on_validation_where_all_were_tried() -> None:
    tried = [runs("an", "spl", [30.0], 1e-3), runs("an", "spl", [40.0], 1e-4)]
    # The winner on validation, which is the loser in the test, was run elsewhere too.
    table, _ = wide(pd.concat([*tried, runs("an", "ppl_08", [50.0, 60.0], 1e-3)]))
    assert table.loc["an"].tolist() == [f"55.0 ± {np.std([50, 60], ddof=1):.1f}", "30.0"]
    # A candidate that was run in an easier setting only is not favoured by that.
    table, _ = wide(pd.concat([*tried, runs("an", "ppl_08", [1.0], 1e-4)]))
    assert table.loc["an"].tolist() == ["30.0"]
    # Where labels are observed in another way another one may win.
    other = [runs("an", "pol_02", [60.0], 1e-3), runs("an", "pol_02", [50.0], 1e-4)]
    assert wide(pd.concat([*tried, *other]))[0].loc["an"].tolist() == ["50.0", "30.0"]


def test_a_learning_rate_for_each_setting() -> None:
    tried = [runs("an", "spl", [30.0], 1e-3), runs("an", "spl", [40.0], 1e-4)]
    tried += [runs("an", "ppl_04", [50.0], 1e-3), runs("an", "ppl_04", [45.0], 1e-4)]
    assert wide(pd.concat(tried))[0].loc["an"].tolist() == ["50.0", "30.0"]
    assert wide(pd.concat(tried), each_setting=True)[0].loc["an"].tolist() == ["45.0", "30.0"]


def test_other_options_are_a_row_of_their_own_and_validation_can_be_shown() -> None:
    both = pd.concat([runs("asl", "spl", [30.0]), runs("asl", "spl", [40.0], options="gamma_neg=4.0")])
    table, _ = wide(both)
    assert table["spl"].to_dict() == {"asl gamma_neg=4.0": "40.0", "asl": "30.0"}
    prior = pd.concat([both.assign(**{"train.prior": 1.8}), runs("asl", "spl", [20.0]).assign(**{"train.prior": 1.0})])
    assert wide(prior)[0].index.tolist() == ["asl gamma_neg=4.0", "asl", "asl prior=1.0"]
    assert wide(both, validation=True)[0]["spl"].to_dict() == {"asl": "70.0", "asl gamma_neg=4.0": "60.0"}


def test_experiments_of_dvc_have_a_column_for_each_option_of_each_method() -> None:
    options = {"methods.asl.gamma_neg": [None, 8.0, 8.0, 4.0], "methods.hill.lam": [1.5, None, None, None]}
    tables = [runs("hill", "spl", [50.0]), runs("asl", "spl", [30.0, 30.0]), runs("asl", "spl", [20.0])]
    experiments = pd.concat(tables, ignore_index=True).drop(columns="method.options").assign(**options)
    assert wide(experiments)[0].index.tolist() == ["hill", "asl", "asl gamma_neg=4.0"]


TABLE = re.compile(r"^mlml table (\S+)(.*) --update (\S+) '?([^'\n]+)'?$", re.MULTILINE)


PAGES = {page: (ROOT / f"docs/{page}.md").read_text() for page in ("readings", "results")}


@pytest.mark.parametrize(
    ("file", "more", "page", "part"), [found.groups() for text in PAGES.values() for found in TABLE.finditer(text)]
)
def test_the_documented_tables(file: str, more: str, page: str, part: str) -> None:
    """Each is what the command beside it gives."""
    table, _ = wide(pd.read_csv(ROOT / file), "--validation" in more, "--each-setting" in more)
    assert marked(part, markdown(table)) in (ROOT / page).read_text()


def test_no_documented_table_lacks_its_command() -> None:
    for text in PAGES.values():
        parts = set(re.findall(r"<!-- ([\w ]+): begin -->", text)) - {"statistics"}
        assert parts == {found.group(4) for found in TABLE.finditer(text)}


def test_the_documented_choice_of_learning_rates() -> None:
    chosen = selection.markdown(selection.select(pd.read_csv(ROOT / "paper/results/photos_64_lr.csv")))
    assert chosen in (ROOT / "docs/results.md").read_text()


def test_data_sets_are_not_mixed() -> None:
    with pytest.raises(ValueError, match="runs of several data sets: digits, photos"):
        wide(pd.concat([runs("an", "spl", [1.0]), runs("an", "spl", [2.0]).assign(dataset="digits")]))


def test_states_of_the_data_and_results_of_one_run_are_not_mixed() -> None:
    one, other = runs("an", "spl", [1.0]), runs("an", "spl", [2.0])
    with pytest.raises(ValueError, match="several states of the data: column 'data' has 0123456, not noted"):
        wide(pd.concat([one.assign(data="0123456"), other], ignore_index=True))
    assert wide(one.assign(data="0123456"))[0].loc["an"].tolist() == ["1.0"]
    with pytest.raises(ValueError, match=r"two runs of method an, setting spl, .* seed 0 have mAP 1\.0 and 2\.0"):
        wide(pd.concat([one, other]))
    draws = [one.assign(**{"corrupt.seed": 0}), other.assign(**{"corrupt.seed": 1})]
    assert wide(pd.concat(draws))[0].loc["an"].tolist() == [f"1.5 ± {np.std([1, 2], ddof=1):.1f}"]


def test_the_validation_score_is_the_one_that_chose() -> None:
    rows = pd.concat([runs("an", "spl", [30.0, 30.0]), runs("bce", "spl", [40.0, 40.0])], ignore_index=True)
    rows["validation_loss"] = [0.5, 0.25, 0.75, 0.75]
    table, notes = wide(rows, validation=True)
    assert list(table["spl"].items()) == [
        ("an", f"0.3750 ± {np.std([0.5, 0.25], ddof=1):.4f}"),
        ("bce", "0.7500 ± 0.0000"),
    ]
    assert notes == ["the cells are validation_loss, by which the epochs were chosen"]
    rows.loc[0, "validation_loss"] = np.nan
    assert wide(rows, validation=True)[0]["spl"].to_dict() == {"an": "70.0 ± 0.0", "bce": "60.0 ± 0.0"}
    with pytest.raises(ValueError, match="no validation score in common"):
        wide(rows.drop(columns="validation_mAP"), validation=True)


def test_as_a_command(tmp_path: Path, mlml: Callable[..., Ended]) -> None:
    file, other, page = tmp_path / "runs.csv", tmp_path / "other.csv", tmp_path / "page.md"
    runs("an", "spl", [30.0]).to_csv(file, index=False)
    pd.concat([runs("bce", "spl", [score], lr) for score, lr in ((50.0, 1.0), (40.0, 0.1), (45.0, 0.01))]).to_csv(other)
    page.write_text(marked("photos", "old"))
    status, out, err = mlml("table", file, other, "--validation")
    assert (status, out) == (0, "| method | spl |\n|---|--:|\n| an | 70.0 |\n| bce | 60.0 |\n")
    assert mlml("table", file, "--update", page, "photos") == (0, "", "")
    assert page.read_text() == marked("photos", "| method | spl |\n|---|--:|\n| an | 30.0 |")
    status, out, err = mlml("table", file, "--update", page, "none")
    assert (status, out, err.startswith(f"mlml table: {page}: the marks <!-- none: begin -->")) == (1, "", True)


def test_remarks_are_no_part_of_the_table(tmp_path: Path, mlml: Callable[..., Ended]) -> None:
    tried = [runs("an", "spl", [score], lr) for score, lr in ((40.0, 1.0), (50.0, 0.1), (45.0, 0.01))]
    pd.concat(tried).to_csv(tmp_path / "runs.csv", index=False)
    status, out, err = mlml("table", tmp_path / "runs.csv")
    assert (status, out.splitlines()[2:]) == (0, ["| an | 40.0 |"])
    assert err.startswith("note: photos an: the best train.lr is at the edge of what was tried")
