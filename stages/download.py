"""Fetch the data set's archives as published, checked by size and sha256."""

from pathlib import Path

from mlml.download import Download, fetch
from mlml.files import link, write_json
from mlml.params import parse
from stages import parameters, run

# Outside of DVC's outputs, which DVC removes before a stage runs: what is here is not downloaded twice.
STORE = Path(".mlml/archives")


def main(folder: Path) -> None:
    """Fetch into FOLDER; it also gets a list of what there is, archives.json."""
    params = parameters("download")
    file = f"datasets/{params['dataset']}/dataset.yaml"
    archives = parse(Download, {"archives": params["archives"]}, file).archives
    folder.mkdir(parents=True, exist_ok=True)
    for archive in archives:
        link(fetch(archive, STORE / archive.sha256, STORE), folder / archive.file)
    write_json(folder / "archives.json", {archive.file: archive.sha256 for archive in archives})
    print(f"{len(archives)} archives for {params['dataset']}")


if __name__ == "__main__":
    run(main)
