"""Decode and resize all images once; write the label table with its split."""

from pathlib import Path

from mlml import datasets, preparation, table
from mlml.params import parse
from stages import parameters, run


def main(archives: Path, images_file: Path, labels_file: Path) -> None:
    """Read the data set from ARCHIVES or its own folder; write IMAGES_FILE (.npy) and LABELS_FILE (.csv)."""
    params = parameters("prepare")
    folder = Path("datasets") / params["dataset"]
    layout = parse(datasets.Layout, params["images"], f"{folder}/dataset.yaml: images")
    size = parse(preparation.PrepareParams, params["prepare"], "prepare").image_size or layout.image_size
    source = datasets.read(layout.reader, folder, archives, layout.options)
    table.check_splits(source.table)
    preparation.prepare(source, size, images_file)
    table.write(source.table, labels_file)
    counts = ", ".join(f"{len(source.table.rows(split))} {split}" for split in table.SPLITS)
    print(f"{params['dataset']}: {counts} images, {len(source.table.classes)} classes, {size} x {size} pixels")


if __name__ == "__main__":
    run(main)
