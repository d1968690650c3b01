"""Fetch the data set's archives as published; check size and sha256, and the files that the user brings."""

from pathlib import Path

from mlml.core.files import link, write_json
from mlml.core.params import parse
from mlml.download.archives import Download
from mlml.download.fetch import fetch
from stages import parameters, run

# No output of DVC's, which removes outputs before a stage runs: nothing is downloaded twice.
STORE = Path(".mlml/archives")


def main(folder: Path) -> None:
    """Fetch the archives into FOLDER, and write their list to archives.json there."""
    params = parameters("download")
    dataset = Path("datasets") / params["dataset"]
    section = parse(Download, {"archives": params["archives"]}, f"{dataset}/dataset.yaml")
    section.check_manual_files(dataset)
    folder.mkdir(parents=True, exist_ok=True)
    for archive in section.to_fetch:
        link(fetch(archive, STORE / archive.sha256), folder / archive.file)
    write_json(folder / "archives.json", {archive.file: archive.sha256 for archive in section.to_fetch})
    print(f"{len(section.to_fetch)} archives for {params['dataset']}")


if __name__ == "__main__":
    run(main)
