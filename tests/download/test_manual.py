"""What must be brought by hand: how a data set's file says it, and what a user is told before anything else happens."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mlml.core.params import parse
from mlml.datasets import Layout
from mlml.download.fetch import Archive, Download
from mlml.download.manual import Brought, check
from stages import download
from tests.test_architecture import ROOT

FETCHED = {"file": "x.tar", "urls": ["http://127.0.0.1/x"], "bytes": 3, "sha256": "0" * 64}
LISTS = {"bring": ["a.csv"], "or": ["b.npy", "c.npy"], "from": "Ann, http://127.0.0.1/a"}
PICTURES = {"bring": ["images/"], "from": "Ben"}


def items(*entries: dict[str, Any]) -> list[Brought]:
    return [Brought.model_validate(entry) for entry in entries]


def faults(folder: Path, *entries: dict[str, Any]) -> list[str]:
    with pytest.raises(ValueError) as error:
        check(items(*entries), folder)
    lines = str(error.value).replace(str(folder), "FOLDER").split("\n")
    assert lines[0] == "FOLDER: these cannot be downloaded, bring them under these names"
    return lines[1:]


def test_all_that_is_missing_is_said_at_once(tmp_path: Path) -> None:
    assert faults(tmp_path, LISTS, PICTURES) == [
        "FOLDER/a.csv; or instead: FOLDER/b.npy, FOLDER/c.npy (get it from: Ann, http://127.0.0.1/a)",
        "FOLDER/images/ (get it from: Ben)",
    ]
    (tmp_path / "b.npy").touch()
    (tmp_path / "images").mkdir()
    assert faults(tmp_path, LISTS, PICTURES) == [
        "FOLDER/a.csv; or instead: FOLDER/c.npy (get it from: Ann, http://127.0.0.1/a)",
        "FOLDER/images/ (it is empty) (get it from: Ben)",
    ]


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "images").touch()
    (tmp_path / "a.csv").mkdir()
    found = faults(tmp_path, {"bring": ["a.csv", "images/"], "from": "Ann"})
    assert found == ["FOLDER/a.csv (it is a folder), FOLDER/images/ (it is a file) (get it from: Ann)"]


NAMES = ["a", "b", "c/d", "e/"]


@given(st.sets(st.sampled_from(NAMES)), st.lists(st.sampled_from(NAMES), min_size=1), st.lists(st.sampled_from(NAMES)))
def test_what_is_there(
    tmp_path_factory: pytest.TempPathFactory, there: set[str], bring: list[str], instead: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("own")
    for name in there:
        path = folder / (f"{name}file" if name.endswith("/") else name)
        path.parent.mkdir(exist_ok=True)
        path.touch()
    item = {"bring": bring, "from": "x", **({"or": instead} if instead else {})}
    if there >= set(bring) or (instead and there >= set(instead)):
        check(items(item), folder)
    else:
        (line,) = faults(folder, item)
        assert {name for name in NAMES if f"FOLDER/{name}" in line} == {*bring, *instead} - there


def test_entries_of_both_kinds() -> None:
    wanted = parse(Download, {"archives": [LISTS, FETCHED, {**PICTURES, "from": "Ben,\n  of  Berlin\n"}]}, "file")
    assert wanted.to_fetch == [Archive(**FETCHED)]
    assert [item.bring for item in wanted.by_hand] == [["a.csv"], ["images/"]]
    assert [item.instead for item in wanted.by_hand] == [["b.npy", "c.npy"], None]
    assert wanted.by_hand[1].source == "Ben, of Berlin"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({**FETCHED, "bytes": 0}, "archives.1.bytes: 0 is not allowed; must be greater than 0"),
        ({"file": "x"}, "archives.1.urls: missing\narchives.1.bytes: missing\narchives.1.sha256: missing"),
        ({**FETCHED, "from": "Ann"}, "archives.1.from: unknown key"),
        ({"bring": ["a"]}, "archives.1.from: missing"),
        ({"bring": [], "from": "Ann"}, "archives.1.bring: [] is not allowed; list should have at least 1 item after"),
        ({"bring": "a", "from": "Ann"}, "archives.1.bring: 'a' is not allowed; must be a valid list"),
        ({"bring": ["a"], "from": " "}, "archives.1.from: ' ' is not allowed; must say where to get it"),
        ({"bring": ["a"], "from": 3}, "archives.1.from: 3 is not allowed; must be a valid string"),
        ({"bring": ["a"], "from": "Ann", "file": "x"}, "archives.1.file: unknown key"),
        ({"bring": ["a"], "or": [], "from": "Ann"}, "archives.1.or: [] is not allowed; "),
        ("a.csv", "archives.1: 'a.csv' is not allowed; must be keys and values"),
        (None, "archives.1: None is not allowed; must be keys and values"),
    ],
)
def test_other_entries(entry: Any, message: str) -> None:
    with pytest.raises(ValueError) as error:
        parse(Download, {"archives": [FETCHED, entry]}, "")
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("path", ["", "/", "/etc/passwd", "..", "../mine/a", "a/../../b", "."])
def test_paths_stay_below_the_folder(path: str) -> None:
    with pytest.raises(ValueError) as error:
        parse(Brought, {"bring": ["a", path], "from": "Ann"}, "x")
    assert str(error.value) == f"x.bring.1: {path!r} is not allowed; must be a path below the data set's folder; " + (
        "a folder ends in /"
    )


def test_the_stage_checks_before_it_fetches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(*args: object) -> None:
        raise AssertionError("fetched too early")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(download, "parameters", lambda stage: {"dataset": "mine", "archives": [FETCHED, LISTS]})
    monkeypatch.setattr(download, "fetch", fetch)
    with pytest.raises(ValueError) as error:
        download.main(Path("data"))
    assert "\ndatasets/mine/a.csv; or instead: datasets/mine/b.npy, datasets/mine/c.npy (" in str(error.value)
    assert not Path("data").exists()


def test_what_is_brought_is_neither_copied_nor_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(download, "parameters", lambda stage: {"dataset": "mine", "archives": [LISTS]})
    own = tmp_path / "datasets/mine"
    own.mkdir(parents=True)
    (own / "a.csv").touch()
    download.main(tmp_path / "data")
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["archives.json"]
    assert json.loads((tmp_path / "data/archives.json").read_text()) == {}


@pytest.mark.parametrize("file", sorted(ROOT.glob("datasets/*/dataset.yaml")), ids=lambda file: file.parent.name)
def test_files_of_the_data_sets(file: Path) -> None:
    sections = yaml.safe_load(file.read_text())
    parse(Layout, sections["images"], "images")
    wanted = parse(Download, {"archives": sections["archives"]}, "")
    assert len(wanted.to_fetch) + len(wanted.by_hand) == len(sections["archives"])


def test_what_nuswide_asks_for(tmp_path: Path) -> None:
    entries = yaml.safe_load((ROOT / "datasets/nuswide/dataset.yaml").read_text())["archives"]
    pictures, lists = faults(tmp_path, *entries)
    assert pictures.startswith("FOLDER/images/ (get it from: ") and "/NUS-WIDE.html" in pictures
    assert lists.startswith("FOLDER/nus_wid_data.csv; or instead: FOLDER/formatted_train_images.npy, FOLDER/formatted_")
    assert "https://zenodo.org/records/10162606" in lists and "https://github.com/Alibaba-MIIL/ASL" in lists
