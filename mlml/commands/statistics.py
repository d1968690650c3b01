"""The paper's counts of observed labels (Table II) beside ours."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mlml import corruption
from mlml.datasets.files.regular_files import check_file
from mlml.labels import statistics as label_statistics
from mlml.labels import table
from mlml.settings import Setting

PUBLISHED = Path("paper/statistics.csv")
NAMES = {"voc2012": "Pascal VOC 2012", "coco2014": "MS-COCO 2014", "nuswide": "NUS-WIDE"}
COUNTS = ("positives", "negatives")
HEADER = """\
| setting | positives, paper | ours | negatives, paper | ours | an image, paper | ours | |
|---|--:|--:|--:|--:|--:|--:|---|"""


def compare(published_file: Path, tables: Mapping[str, Path], seed: int = 0) -> pd.DataFrame:
    """Count the observed labels that we draw, for each published row.

    Args:
        published_file: the paper's numbers, `PUBLISHED` in the project.
        tables: the label table that the stage prepare wrote, for each data set of the paper that is at hand.
        seed: of the draw.

    Returns:
        the published rows, with the columns ours_positives, ours_negatives, images and classes; NaN for a data set
        without a table.

    Raises:
        ValueError: a table is of an unknown data set, or is no label table.
        OSError: a file cannot be read.
    """
    published = pd.read_csv(published_file)
    for name in tables.keys() - set(published["dataset"]):
        raise ValueError(f"{name!r} is no data set of the paper; they are {', '.join(NAMES)}")
    rows = []
    for name, file in tables.items():
        check_file(file, "the labels.csv that the stage prepare wrote")
        labels = table.read(file)
        train = labels.labels[labels.rows("train")]
        for setting in published["setting"][published["dataset"] == name]:
            counts = label_statistics(corruption.corrupt(train, Setting.parse(setting), seed))
            row = {"dataset": name, "setting": setting, "images": len(train), "classes": train.shape[1]}
            rows.append({**row, **{f"ours_{key}": counts[key] for key in COUNTS}})
    return published.merge(pd.DataFrame(rows), how="left", on=["dataset", "setting"])


def verdict(row: Mapping[Any, Any]) -> str:
    """Whether our counts are the paper's in a row of `compare`, and if not, why."""
    if np.isnan(float(row["ours_positives"])):
        return "not compared"
    paper, ours = ([int(row[f"{who}{key}"]) for key in COUNTS] for who in ("", "ours_"))
    if paper == ours:
        return "exact"
    if str(row["setting"]).startswith("pol") and sum(paper) == sum(ours):
        return "exact total; which labels is drawn"
    cells = int(row["images"]) * int(row["classes"])
    if row["setting"] == "fol" and paper[1] == ours[1] and sorted(str(paper[0])) == sorted(str(ours[0])):
        sums = f"{ours[0]} + {ours[1]} = {cells} labels, {paper[0]} + {paper[1]} not"
        return f"slip of the paper: two digits swapped; {sums}"
    return f"differs: {ours[0] - paper[0]:+d} positives, {ours[1] - paper[1]:+d} negatives"


def markdown(rows: pd.DataFrame) -> str:
    """The rows of `compare` as Markdown, a table for each data set."""
    lines = []
    for name, group in rows.groupby("dataset", sort=False):
        images = group["images"].iloc[0]
        size = "label lists not available" if np.isnan(images) else f"{int(images):,} training images"
        lines += ["", f"**{NAMES[str(name)]}** ({size})", "", HEADER]
        for row in group.to_dict("records"):
            published = f"{row['positives_per_image']:.1f} + {row['negatives_per_image']:.1f}"
            ours, each = ["-", "-"], "-"
            if not np.isnan(row["ours_positives"]):
                counts = [int(row[f"ours_{key}"]) for key in COUNTS]
                ours, each = list(map(str, counts)), " + ".join(f"{count / row['images']:.1f}" for count in counts)
            counts_of_both = [row["positives"], ours[0], row["negatives"], ours[1]]
            cells = [row["setting"], *counts_of_both, published, each, verdict(row)]
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines).strip()
