"""Fetch the data set's archives as published, checked by size and sha256; see that what must be brought is there."""

from pathlib import Path

from mlml.core.files import link, write_json
from mlml.core.params import parse
from mlml.download import manual
from mlml.download.fetch import Download, fetch
from stages import parameters, run

# Outside of DVC's outputs, which DVC removes before a stage runs: what is here is not downloaded twice.
STORE = Path(".mlml/archives")


def main(folder: Path) -> None:
    """Fetch into FOLDER; it also gets a list of what there is, archives.json."""
    params = parameters("download")
    own = Path("datasets") / params["dataset"]
    wanted = parse(Download, {"archives": params["archives"]}, f"{own}/dataset.yaml")
    manual.check(wanted.by_hand, own)
    folder.mkdir(parents=True, exist_ok=True)
    for archive in wanted.to_fetch:
        link(fetch(archive, STORE / archive.sha256, STORE), folder / archive.file)
    write_json(folder / "archives.json", {archive.file: archive.sha256 for archive in wanted.to_fetch})
    print(f"{len(wanted.to_fetch)} archives for {params['dataset']}")


if __name__ == "__main__":
    run(main)
