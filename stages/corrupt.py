"""Draw the observed labels of the training images, once, and count them."""

from dataclasses import replace
from pathlib import Path

from mlml import corruption, table
from mlml.files import write_json
from mlml.params import parse
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
    observed = replace(train, labels=corruption.corrupt(train.labels, setting, seed))
    statistics = corruption.statistics(observed.labels)
    if not statistics["observed_share"]:
        raise ValueError(f"setting: {setting} observes none of the {len(train.classes)} labels of any image")
    table.write(observed, observed_file)
    write_json(statistics_file, statistics)
    print(f"{setting}: {statistics['positives']} positives, {statistics['negatives']} negatives observed")


if __name__ == "__main__":
    run(main)
