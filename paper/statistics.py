"""The paper's table of observed labels (Table II) beside ours, as Markdown.

``python -m paper.statistics voc2012=LABELS.csv coco2014=LABELS.csv ...``, where a file is the ``data/labels.csv`` that
the stage prepare wrote for that data set; ``--update docs/results.md`` puts the table into that file.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from mlml import corruption
from mlml.labels import statistics as label_statistics
from mlml.labels import table
from mlml.settings import Setting
from paper import marks

PUBLISHED = Path(__file__).with_suffix(".csv")
NAMES = {"voc2012": "Pascal VOC 2012", "coco2014": "MS-COCO 2014", "nuswide": "NUS-WIDE"}
COUNTS = ("positives", "negatives")


def compare(tables: Mapping[str, Path], seed: int = 0) -> pd.DataFrame:
    """The published rows, with the columns ours_positives, ours_negatives, images and classes (NaN: no table given).

    Raises:
        ValueError: a table of an unknown data set, or no table.
    """
    published = pd.read_csv(PUBLISHED)
    for name in tables.keys() - set(published["dataset"]):
        raise ValueError(f"{name!r} is no data set of the paper; they are {', '.join(NAMES)}")
    rows = []
    for name, file in tables.items():
        labels = table.read(file)
        train = labels.labels[labels.rows("train")]
        for setting in published["setting"][published["dataset"] == name]:
            found = label_statistics(corruption.corrupt(train, Setting.parse(setting), seed))
            row = {"dataset": name, "setting": setting, "images": len(train), "classes": train.shape[1]}
            rows.append({**row, **{f"ours_{key}": found[key] for key in COUNTS}})
    return published.merge(pd.DataFrame(rows), how="left", on=["dataset", "setting"])


def verdict(row: Mapping[str, float | str]) -> str:
    """Whether a row of `compare` is the paper's, and if not, why."""
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
    """The table of `compare`."""
    lines = []
    for name, group in rows.groupby("dataset", sort=False):
        images = group["images"].iloc[0]
        about = "no label lists at hand" if np.isnan(images) else f"{int(images):,} training images"
        lines += ["", f"**{NAMES[str(name)]}** ({about})", ""]
        lines += ["| setting | positives, paper | ours | negatives, paper | ours | an image, paper | ours | |"]
        lines += ["|---|--:|--:|--:|--:|--:|--:|---|"]
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


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m paper.statistics", description=__doc__.partition("\n\n")[0])
    parser.add_argument("tables", nargs="+", metavar="DATASET=LABELS.csv")
    parser.add_argument("--update", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    try:
        named = dict(word.split("=", 1) for word in arguments.tables)
        text = markdown(compare({name: Path(file) for name, file in named.items()}))
        print(text) if arguments.update is None else marks.update(arguments.update, "statistics", text)
    except (ValueError, OSError) as error:
        sys.exit(f"statistics: {error}")


if __name__ == "__main__":
    main()
