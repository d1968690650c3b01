import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from mlml.results import markdown, summarise

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


def test_as_a_command() -> None:
    def run(text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "mlml.results"], input=text, capture_output=True, text=True)

    assert "| banana | spl | an | 1 | 50.00 |" in run(ROWS.to_csv()).stdout
    wrong = run("a,b\n1,2\n")
    assert wrong.returncode == 1
    assert wrong.stderr == "results: no column 'dataset': this is not the output of `dvc exp show --csv`\n"
