"""Section `archives`: what a wrong entry gives, and what a user is told who has to bring files."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mlml.core.params import parse
from mlml.datasets import Layout
from mlml.download.archives import Archive, Download, ManualFiles
from stages import download
from tests.test_architecture import ROOT

ARCHIVE: dict[str, Any] = {"file": "x.tar", "urls": ["https://h/x"], "bytes": 7, "sha256": "ab" * 32}
LISTS: dict[str, Any] = {"bring": ["a.csv"], "or": ["b.npy", "c.npy"], "from": "the authors, http://h/a"}
PICTURES = {"bring": ["images/"], "from": "a form,\n  by  mail\n"}
NAME = "must be a file name without a folder"
URL = "must be http://..., https://..., file:folder/name or file:///folder/name"
HEX = "must be 64 lowercase hex digits"
PATH = "must be a path below the data set's folder; a folder ends in /"


def section(*entries: Any) -> Download:
    return parse(Download, {"archives": list(entries)}, "")


def fault(entry: Any) -> str:
    with pytest.raises(ValueError) as error:
        section(entry)
    return str(error.value).removeprefix("archives.0")


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        *[("file", name, NAME) for name in ("a/b", "a\\b", ".", "..", "")],
        *[("urls", url, URL) for url in ("ftp://h/x", "http:///x", "file://host/x", "file:", "file:///", "x.tar")],
        *[("sha256", digits, HEX) for digits in ("AB" * 32, "ab" * 31)],
        ("bytes", 0, "must be greater than 0"),
        *[("bring", path, PATH) for path in ("", "/", "/etc/passwd", "..", "../mine/a", "a/../../b", ".")],
        ("or", "/a", PATH),
        ("from", " ", "must say where to get it"),
    ],
)
def test_wrong_value_gives_one_line(key: str, value: Any, rule: str) -> None:
    entry = LISTS if key in LISTS else ARCHIVE
    others = entry[key]
    place, values = (f"{key}.{len(others)}", [*others, value]) if isinstance(others, list) else (key, value)
    assert fault({**entry, key: values}) == f".{place}: {value!r} is not allowed; {rule}"


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ({key: ARCHIVE[key] for key in ("file", "urls", "bytes")}, ".sha256: missing"),
        ({"bring": ["a"]}, ".from: missing"),
        ({**ARCHIVE, "from": "the authors"}, ".from: unknown key"),
        ({**LISTS, "file": "x"}, ".file: unknown key"),
        *[({**entry, key: []}, f".{key}: [] is not allowed; ") for entry, key in ((ARCHIVE, "urls"), (LISTS, "or"))],
        *[(entry, f": {entry!r} is not allowed; must be keys and values") for entry in ("a.csv", None)],
    ],
)
def test_wrong_entry_gives_one_line(entry: Any, line: str) -> None:
    assert fault(entry).startswith(line) and "\n" not in fault(entry)


@pytest.mark.parametrize("url", ["http://h", "https://h:1/x?y=z", "file:a/x", "file:/a/x", "file:///a/x", "file:../x"])
def test_entries_of_both_kinds(url: str) -> None:
    archive = {**ARCHIVE, "file": "..x", "urls": [url]}
    lists, fetched, pictures = section(LISTS, archive, PICTURES).archives
    assert fetched == Archive(**archive)
    assert isinstance(lists, ManualFiles) and isinstance(pictures, ManualFiles)
    assert (lists.bring, lists.alternative) == (["a.csv"], ["b.npy", "c.npy"])
    assert (pictures.alternative, pictures.source) == (None, "a form, by mail")
    assert section(LISTS, archive).to_fetch == [fetched]


# Files that the user brings


def missing(folder: Path, *entries: Any) -> list[str]:
    with pytest.raises(ValueError) as error:
        section(*entries).check_manual_files(folder)
    head, *lines = str(error.value).replace(str(folder), "FOLDER").split("\n")
    assert head == "FOLDER: these cannot be downloaded, bring them under these names"
    return lines


def test_all_that_is_missing_is_said_at_once(tmp_path: Path) -> None:
    assert missing(tmp_path, LISTS, PICTURES) == [
        "FOLDER/a.csv; or instead: FOLDER/b.npy, FOLDER/c.npy (get it from: the authors, http://h/a)",
        "FOLDER/images/ (get it from: a form, by mail)",
    ]
    for name in ("a.csv", "c.npy", "images"):
        (tmp_path / name).mkdir()
    (tmp_path / "b.npy").touch()
    assert missing(tmp_path, LISTS, PICTURES) == [
        "FOLDER/a.csv (it is a folder); or instead: FOLDER/c.npy (it is a folder) "
        "(get it from: the authors, http://h/a)",
        "FOLDER/images/ (it is empty) (get it from: a form, by mail)",
    ]
    assert missing(tmp_path, {"bring": ["b.npy/"], "from": "x"}) == ["FOLDER/b.npy/ (it is a file) (get it from: x)"]


NAMES = ["a", "b", "c/d", "e/"]
SETS = st.sets(st.sampled_from(NAMES))


@given(SETS, SETS.filter(bool), SETS)
def test_one_alternative_must_be_complete(
    tmp_path_factory: pytest.TempPathFactory, present: set[str], bring: set[str], alternative: set[str]
) -> None:
    folder = tmp_path_factory.mktemp("mine")
    for name in present:
        path = folder / (f"{name}file" if name.endswith("/") else name)
        path.parent.mkdir(exist_ok=True)
        path.touch()
    entry = {"bring": [*bring], "from": "x", **({"or": [*alternative]} if alternative else {})}
    if present >= bring or (alternative and present >= alternative):
        section(entry).check_manual_files(folder)
    else:
        (line,) = missing(folder, entry)
        assert {name for name in NAMES if f"FOLDER/{name}" in line} == (bring | alternative) - present


def test_stage_checks_manual_files_before_it_fetches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[Archive] = []

    def fetch(archive: Archive, folder: Path) -> Path:
        fetched.append(archive)
        folder.mkdir(parents=True)
        (folder / archive.file).touch()
        return folder / archive.file

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(download, "parameters", lambda stage: {"dataset": "mine", "archives": [ARCHIVE, LISTS]})
    monkeypatch.setattr(download, "fetch", fetch)
    with pytest.raises(ValueError, match=r"\ndatasets/mine/a.csv; or instead: datasets/mine/b.npy, datasets/mine/c"):
        download.main(Path("data"))
    assert not Path("data").exists() and not fetched
    Path("datasets/mine").mkdir(parents=True)
    Path("datasets/mine/a.csv").touch()
    download.main(Path("data"))
    assert sorted(path.name for path in Path("data").iterdir()) == ["archives.json", "x.tar"]
    assert json.loads(Path("data/archives.json").read_text()) == {"x.tar": "ab" * 32}
    assert Path(".mlml/archives", "ab" * 32, "x.tar").exists()


@pytest.mark.parametrize("file", sorted(ROOT.glob("datasets/*/dataset.yaml")), ids=lambda file: file.parent.name)
def test_files_of_the_data_sets(file: Path, tmp_path: Path) -> None:
    sections = yaml.safe_load(file.read_text())
    parse(Layout, sections["images"], "images")
    if file.parent.name != "nuswide":
        assert len(section(*sections["archives"]).to_fetch) == len(sections["archives"])
        return
    images, lists = missing(tmp_path, *sections["archives"])
    assert images.startswith("FOLDER/images/ (get it from: ") and "/NUS-WIDE.html" in images
    assert lists.startswith("FOLDER/nus_wid_data.csv; or instead: FOLDER/formatted_train_images.npy, FOLDER/formatted_")
    assert "https://zenodo.org/records/10162606" in lists and "https://github.com/Alibaba-MIIL/ASL" in lists
