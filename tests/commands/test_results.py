import io
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mlml.commands.results import markdown, summarise
from tests.commands.conftest import Ended

ROWS = pd.DataFrame(
    [
        ("digits", "pol_02", "an", 0, 60.0),
        ("digits", "pol_02", "an", 1, 62.0),
        ("digits", "pol_02", "an", 1, 62.0),  # one run, shown as experiment and as workspace
        ("digits", "pol_02", "bce", 0, 70.0),
        ("banana", "spl", "an", 0, 50.0),
        ("digits", "pol_02", "an", 2, None),  # not finished
    ],
    columns=["dataset", "setting", "method", "seed", "mAP"],
)


def test_mean_and_spread_over_seeds() -> None:
    table = summarise(ROWS)
    assert table[["dataset", "method", "seeds", "mAP"]].to_numpy().tolist() == [
        ["banana", "an", 1, 50.0],
        ["digits", "bce", 1, 70.0],
        ["digits", "an", 2, 61.0],
    ]
    assert table["std"].iloc[2] == pytest.approx(np.std([60, 62], ddof=1))
    assert markdown(table).splitlines()[-1] == "| digits | pol_02 | an | 2 | 61.00 | 1.41 | 60.00 | 62.00 |"


def test_as_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mlml: Callable[..., Ended]) -> None:
    (tmp_path / "runs.csv").write_text(ROWS.to_csv(index=False))
    status, out, err = mlml("results", tmp_path / "runs.csv")
    assert (status, out, err) == (0, markdown(summarise(ROWS)) + "\n", "")
    for words in ((), ("-",)):
        monkeypatch.setattr("sys.stdin", io.StringIO(ROWS.to_csv(index=False)))
        assert mlml("results", *words).out == out
    monkeypatch.setattr("sys.stdin", io.StringIO("a,b\n1,2\n"))
    wrong = "mlml results: no column 'dataset': this is not the output of `dvc exp show --csv`\n"
    assert mlml("results") == (1, "", wrong)


def test_runs_that_differ_in_a_parameter_are_kept_apart() -> None:
    rows = ROWS.assign(**{"train.lr": None, "metrics/test.json": "hash", "Experiment": range(len(ROWS))})
    other = rows.iloc[[0]].assign(**{"train.lr": 1e-4, "mAP": 55.0})
    table = summarise(pd.concat([rows, other], ignore_index=True))
    an = table[(table["method"] == "an") & (table["dataset"] == "digits")]
    assert an[["seeds", "mAP"]].to_numpy().tolist() == [[2, 61.0], [1, 55.0]]
    assert an["train.lr"].isna().tolist() == [True, False]


def test_runs_on_other_data_are_other_rows() -> None:
    """DVC lists the hash of each data set's folder; here a label of one was corrected between two runs."""
    hashes = {"datasets/digits": "d751713988987e93.dir", "datasets/banana": "0123456789abcdef.dir"}
    before = ROWS.assign(**hashes)
    after = before.iloc[[0]].assign(**{"datasets/digits": "99999999999.dir", "mAP": 55.0})
    table = summarise(pd.concat([before, after], ignore_index=True))
    assert table[["dataset", "data", "method", "seeds", "mAP"]].to_numpy().tolist() == [
        ["banana", "0123456", "an", 1, 50.0],
        ["digits", "d751713", "bce", 1, 70.0],
        ["digits", "d751713", "an", 2, 61.0],
        ["digits", "9999999", "an", 1, 55.0],
    ]
    assert "data" not in summarise(before)  # nothing to tell apart


def test_states_of_the_data_that_a_grid_notes_are_other_rows() -> None:
    rows = ROWS.assign(data="0123456")
    assert "data" not in summarise(rows)
    older = ROWS.iloc[[0]].assign(mAP=55.0)  # of a file without that column
    table = summarise(pd.concat([rows, older], ignore_index=True))
    assert table.query("dataset == 'digits'")[["data", "method", "seeds", "mAP"]].to_numpy().tolist() == [
        ["0123456", "bce", 1, 70.0],
        ["0123456", "an", 2, 61.0],
        ["", "an", 1, 55.0],
    ]


def test_a_run_that_took_another_time_is_the_same() -> None:
    rows = pd.concat([ROWS.assign(seconds=1.0), ROWS.assign(seconds=2.0)], ignore_index=True)
    assert summarise(rows)["seeds"].tolist() == summarise(ROWS)["seeds"].tolist()


HEADER = "dataset,data,setting,method,seed,mAP"


@pytest.mark.parametrize(
    ("row", "line"),
    [
        ("digits,1,spl,an,0,50.5,1", "no table as `dvc exp show --csv` prints it; row 2 has 7 cells, the header 6"),
        ("digits,1,spl,an,0", "no table as `dvc exp show --csv` prints it; row 2 has 5 cells, the header 6"),
        (",1,spl,an,0,50.5", "a run with mAP 50.5 has no dataset"),
        ("digits,1,spl,,0,50.5", "a run with mAP 50.5 has no method"),
        ("digits,1,spl,an,,50.5", "a run with mAP 50.5 has no seed"),
        ("digits,1,spl,an,0,inf", "a run has the mAP inf, which is no score"),
    ],
)
@pytest.mark.parametrize("command", ["results", "select", "table"])
def test_a_row_that_would_mislead(
    command: str, row: str, line: str, tmp_path: Path, mlml: Callable[..., Ended]
) -> None:
    (tmp_path / "runs.csv").write_text(f"{HEADER}\n{row}\n")
    ended = mlml(command, tmp_path / "runs.csv")
    assert (ended.status, ended.out, ended.err.count("\n")) == (1, "", 1)
    assert line in ended.err


def test_names_and_hashes_of_digits_are_texts(tmp_path: Path, mlml: Callable[..., Ended]) -> None:
    rows = ["2012,0000001,spl,an,0,50", "2012,12e4567,spl,an,0,60"]
    (tmp_path / "runs.csv").write_text("\n".join([HEADER, *rows]))
    out = mlml("results", tmp_path / "runs.csv").out.splitlines()
    assert [line[:17] for line in out[2:]] == ["| 2012 | 12e4567 ", "| 2012 | 0000001 "]


def test_pipes(tmp_path: Path, mlml: Callable[..., Ended]) -> None:
    """One of the shell, as in `mlml results <(...)`, is read; whoever reads a named one waits, perhaps for ever."""
    reading, writing = os.pipe()
    os.write(writing, ROWS.to_csv(index=False).encode())
    os.close(writing)
    assert mlml("results", f"/dev/fd/{reading}") == (0, markdown(summarise(ROWS)) + "\n", "")
    os.close(reading)
    os.mkfifo(tmp_path / "pipe")
    for command in ("results", "select", "table"):
        assert mlml(command, tmp_path / "pipe").err.endswith(f": {tmp_path}/pipe is a named pipe, not a file\n")


def test_two_results_of_one_run_are_refused() -> None:
    other = ROWS.iloc[[0]].assign(mAP=55.0)
    with pytest.raises(ValueError, match=r"two runs of dataset digits, .* seed 0 have mAP 60\.0 and 55\.0"):
        summarise(pd.concat([ROWS, other], ignore_index=True))
    third = other.assign(**{"train.lr": 1e-4})  # so the two have an empty cell among the values that tell runs apart
    with pytest.raises(ValueError, match=r"two runs of dataset digits, .* seed 0 have mAP 60\.0 and 55\.0"):
        summarise(pd.concat([ROWS, other, third], ignore_index=True))


def test_a_missing_metrics_file_is_no_result() -> None:
    """In a clone without metrics/test.json DVC prints "!" for the workspace."""
    rows = ROWS.astype({"mAP": object})
    rows.loc[0, "mAP"] = "!"
    table = summarise(rows)
    assert table["mAP"].dtype == float
    assert table.set_index(["dataset", "method"]).loc[("digits", "an"), "seeds"] == 1


def test_a_run_that_has_not_ended_is_no_result() -> None:
    """DVC shows it with the metrics of the commit that it started from."""
    states = [None, None, "Running", None, "Queued", "Failed"]
    table = summarise(ROWS.assign(State=states, mAP=ROWS["mAP"].fillna(9)))
    assert table[["method", "seeds", "mAP"]].to_numpy().tolist() == [["bce", 1, 70.0], ["an", 2, 61.0]]
