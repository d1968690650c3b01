"""Fetch the data set's archives as published, checked by size and sha256."""

from pathlib import Path

from mlml.download import Archive, fetch
from mlml.files import write_json
from mlml.params import parse
from stages import parameters, run

PARTIAL = Path(".mlml/partial")  # outside of DVC's outputs: what is there survives a failed run


def main(folder: Path) -> None:
    """Fetch into FOLDER; it also gets a list of what there is, archives.json."""
    params = parameters("download")
    file = f"datasets/{params['dataset']}/dataset.yaml"
    archives = [parse(Archive, values, f"{file}: archives") for values in params["archives"]]
    folder.mkdir(parents=True, exist_ok=True)
    for archive in archives:
        fetch(archive, folder, PARTIAL)
    write_json(folder / "archives.json", {archive.file: archive.sha256 for archive in archives})
    print(f"{len(archives)} archives for {params['dataset']}")


if __name__ == "__main__":
    run(main)
