"""Draw the observed labels of the training images, once, and count them."""

from dataclasses import replace
from pathlib import Path

from mlml import corruption
from mlml.core.files import write_json
from mlml.core.params import parse
from mlml.labels import statistics, table
from mlml.settings import Setting
from stages import parameters, run


def main(labels_file: Path, observed_file: Path, statistics_file: Path) -> None:
    """Read LABELS_FILE; write OBSERVED_FILE (training images only) and STATISTICS_FILE."""
    params = parameters("corrupt")
    setting = Setting.parse(params["setting"])
    seed = parse(corruption.CorruptParams, params["corrupt"], "corrupt").seed
    labels = table.read(labels_file)
    train = labels.take(labels.rows("train"))
    del labels
    if setting.kind != "as_is":
        table.check_complete(train)
    kept = corruption.corrupt(train.labels, setting, seed)
    observed = replace(train, labels=corruption.check_observed(kept, setting))
    counts = statistics(observed.labels)
    table.write(observed, observed_file)
    write_json(statistics_file, counts)
    print(f"{setting}: {counts['positives']} positives, {counts['negatives']} negatives observed")


if __name__ == "__main__":
    run(main)
