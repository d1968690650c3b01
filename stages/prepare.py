"""Decode and resize all images once; write the label table with its split."""

from pathlib import Path

from mlml import datasets
from mlml.core.errors import escaped
from mlml.core.params import parse
from mlml.datasets import prepare, report
from mlml.labels import table
from stages import parameters, run


def main(archives: Path, images_folder: Path, labels_file: Path) -> None:
    """Read the data set from ARCHIVES or its own folder; write IMAGES_FOLDER and LABELS_FILE (.csv)."""
    params = parameters("prepare")
    folder = Path("datasets") / params["dataset"]
    layout = parse(datasets.Layout, params["images"], f"{folder}/dataset.yaml: images")
    chosen = parse(prepare.PrepareParams, params["prepare"], "prepare")
    size, storage = chosen.image_size or layout.image_size, chosen.storage or layout.storage
    source = datasets.read(layout.reader, folder, archives, layout.options)
    table.check_splits(source.table, source.file or folder)
    for remark in [*source.notes, *report.remarks(source.table)]:
        print(escaped(f"note: {remark}"))
    prepare.prepare(source, size, images_folder, storage)
    table.write(source.table, labels_file)
    counts = ", ".join(f"{len(source.table.rows(split))} {split}" for split in table.SPLITS)
    about = f"{len(source.table.classes)} classes, {size} x {size} pixels, kept as {storage}"
    print(f"{params['dataset']}: {counts} images, {about}")


if __name__ == "__main__":
    run(main)
