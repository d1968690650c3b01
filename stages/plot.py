"""Draw the figures."""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from mlml import plots
from mlml.core.params import parse
from mlml.labels import table
from stages import parameters, run


def main(labels_file: Path, observed_file: Path, trajectories_file: Path, metrics: Path, folder: Path) -> None:
    """Read the tables and the folder METRICS; write the figures to FOLDER."""
    chosen = parse(plots.PlotParams, parameters("plot")["plot"], "plot")
    labels, observed = table.read(labels_file), table.read(observed_file)
    truth = labels.take(labels.rows("train"))
    test = json.loads((metrics / "test.json").read_text())
    history = pd.read_csv(metrics / "history.tsv", sep="\t")
    # A class may be called "NA" or "07".
    per_class = pd.read_csv(
        metrics / "per_class.tsv", sep="\t", dtype={"class": str}, keep_default_na=False, na_values={"AP": [""]}
    )
    with np.load(trajectories_file) as file:
        recorded = dict(file)
    figures = {
        "average_precision": plots.average_precision(per_class, test["mAP"]),
        "learning_curve": plots.learning_curve(history, test["best_epoch"]),
        "labels": plots.label_statistics(observed),
        "trajectories": plots.trajectories(recorded, observed, truth, chosen.trajectories, chosen.seed),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        plots.save(figure, folder / f"{name}.{chosen.format}", chosen.dpi)
    print(f"{len(figures)} figures in {folder}/")


if __name__ == "__main__":
    run(main)
