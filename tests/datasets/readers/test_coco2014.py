"""COCO 2014: the official labels give the published counts; archives in the official layout are read in place."""

import io
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from mlml import datasets
from mlml.core.params import parse
from mlml.datasets.files.archive_members import ZipMembers
from mlml.datasets.prepare import prepare
from mlml.datasets.readers import coco2014
from mlml.datasets.split import validation_split
from mlml.download.archives import Download
from mlml.download.fetch import fetch
from mlml.images.store import Storage
from mlml.labels.table import Table, check_complete, check_splits
from mlml.training.recipe import Recipe
from tests.datasets.readers.shared import Reader
from tests.images.shared import by_pillow, pixels
from tests.shared import DATA, coco_labels, needs_data
from tests.test_architecture import ROOT
from tests.workspace import CATEGORY_IDS, small_coco

ALL = {"train2014": 82_783, "val2014": 40_504}  # images in the official files; some have no annotation
READER = Reader("coco2014")
read, fault = READER.read, READER.fault
PATHS = {part: f"annotations/instances_{part}.json" for part in ALL}


# (a) The official labels


def official_instances(part: str) -> bytes:
    """A file like the official one: shuffled, some objects twice, images without any."""
    source = random.Random(0)
    with np.load(DATA / "coco2014/labels.npz") as file:
        key = part.removesuffix("2014")
        names, classes = file[f"{key}_files"].tolist(), file["classes"].tolist()
        present = np.unpackbits(file[key], axis=1)[:, :80]
    ids = [int(name[-16:-4]) for name in names]
    taken = set(ids)
    ids += [number for number in range(1, 10**6) if number not in taken][: ALL[part] - len(ids)]
    images = [{"id": number, "file_name": f"COCO_{part}_{number:012d}.jpg"} for number in ids]
    assert [image["file_name"] for image in images[: len(names)]] == names
    pairs = [(ids[row], CATEGORY_IDS[column]) for row, column in np.argwhere(present).tolist()]
    pairs += pairs[::5]
    annotations = [{"image_id": image, "category_id": category, "iscrowd": 0} for image, category in pairs]
    categories = [{"id": number, "name": name} for number, name in zip(CATEGORY_IDS, classes, strict=True)]
    for one in (images, annotations, categories):
        source.shuffle(one)
    return json.dumps({"images": images, "annotations": annotations, "categories": categories}).encode()


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory) -> Table:
    path = tmp_path_factory.mktemp("official") / coco2014.ANNOTATIONS
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for part, name in PATHS.items():
            archive.writestr(name, official_instances(part))
            archive.writestr(name.replace("instances", "captions"), b"{}")
    return coco2014.label_table(ZipMembers(path).read)


@needs_data
def test_official_labels_give_the_published_counts(official: Table) -> None:
    assert [len(official.rows(split)) for split in ("train", "validation", "test")] == [65_665, 16_416, 40_137]
    assert len(official.classes) == 80
    check_complete(official)


@needs_data
def test_each_official_label_is_where_it_belongs(official: Table) -> None:
    with np.load(DATA / "coco2014/labels.npz") as file:
        assert official.classes == tuple(file["classes"].tolist())
    assert official.classes[0] == "person" and official.classes[79] == "toothbrush"
    assert np.array_equal(official.labels, np.concatenate([coco_labels("train"), coco_labels("val")]))
    numbers = [str(int(image[-16:-4])) for image in official.images]
    assert numbers[:82_081] == sorted(numbers[:82_081]) and numbers[82_081:] == sorted(numbers[82_081:])
    training, validation = validation_split(82_081)
    assert np.array_equal(official.rows("train"), training)
    assert np.array_equal(official.rows("validation"), validation)
    assert np.array_equal(official.rows("test"), np.arange(82_081, 122_218))


# (b) A small data set, all the way from an address to pixels


@pytest.fixture
def archives(tmp_path: Path) -> Path:
    """Small archives, as `mlml.download.fetch` leaves them."""
    (tmp_path / "served").mkdir()
    for archive in parse(Download, {"archives": small_coco(tmp_path / "served")}, "archives").to_fetch:
        fetch(archive, tmp_path / "archives")
    return tmp_path / "archives"


@pytest.mark.parametrize("storage", ["rows", "encoded"])
def test_from_an_address_to_pixels(archives: Path, storage: Storage) -> None:
    source = read(archives)
    table = source.table
    prepare(source, 16, archives / "images", storage)
    rows = pixels(archives / "images")
    assert [len(table.rows(split)) for split in ("train", "validation", "test")] == [14, 4, 11]
    assert rows.shape == (29, 16, 16, 3)
    for image, row in zip(table.images, rows, strict=True):
        with zipfile.ZipFile(archives / coco2014.PHOTOGRAPHS[image.split("/")[0]]) as file:
            assert np.array_equal(row, by_pillow(Image.open(io.BytesIO(file.read(image))), 16))


def test_a_small_table(archives: Path) -> None:
    source = read(archives)
    table = source.table
    assert not source.upright
    numbers = [[9 + 37 * i**2 for i in range(count) if i % 10 != 3] for count in (20, 12)]
    train, test = (sorted(map(str, part)) for part in numbers)
    assert train[:3] == ["10702", "11997", "13366"] and train[-1] == "9481"  # as texts, not as numbers
    names = [f"train2014/COCO_train2014_{int(one):012d}.jpg" for one in train]
    assert table.images == (*names, *(f"val2014/COCO_val2014_{int(one):012d}.jpg" for one in test))
    assert table.classes == tuple(f"class {number}" for number in CATEGORY_IDS)
    steps = [round(((int(one) - 9) / 37) ** 0.5) for one in (*train, *test)]
    assert table.labels.tolist() == [[1 if (i + step) % 8 == 0 else -1 for i in range(80)] for step in steps]
    assert table.rows("validation").tolist() == validation_split(18)[1].tolist()
    check_splits(table)


# (c) What can be wrong


def rewrite(path: Path, change: Callable[[str, bytes], bytes | None]) -> None:
    """Rewrite a zip with changed or removed members."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            changed = change(name, content)
            if changed is not None:
                archive.writestr(name, changed)


@pytest.mark.parametrize("name", [*coco2014.PHOTOGRAPHS.values(), coco2014.ANNOTATIONS])
def test_no_archive(archives: Path, name: str) -> None:
    (archives / name).unlink()
    assert fault(archives) == f"FOLDER/{name} is missing; `dvc repro download` fetches it"


def test_photographs_that_are_missing(archives: Path) -> None:
    """Only photographs with labels are needed."""
    gone = [9 + 37 * i**2 for i in (2, 3, 4, 13)]  # the 4th and the 14th have no annotation
    rewrite(archives / "train2014.zip", lambda name, content: None if int(name[-16:-4]) in gone else content)
    first = "train2014/COCO_train2014_000000000157.jpg"
    assert fault(archives) == f"FOLDER/train2014.zip: 2 photographs are missing, the first is {first}"


def test_annotations_that_are_missing_or_wrong(archives: Path) -> None:
    path = archives / coco2014.ANNOTATIONS
    rewrite(path, lambda name, content: content if "train" in name else content.replace(b'"class 90"', b'"class 91"'))
    assert fault(archives) == f"{PATHS['val2014']} has other categories than {PATHS['train2014']}"
    rewrite(path, lambda name, content: content if "train" in name else b"{}")
    reason = "Object missing required field `images`"
    assert fault(archives) == f"{PATHS['val2014']}: not in COCO's form: {reason}"
    rewrite(path, lambda name, content: content if "train" in name else None)
    assert fault(archives) == f"FOLDER/{path.name}: {PATHS['val2014']} is missing"


def test_one_large_file_at_a_time(archives: Path) -> None:
    """The content of a file is freed before the next one is read."""

    class Content(bytes):
        alive = 0

        def __del__(self) -> None:
            Content.alive -= 1

    def content(name: str) -> bytes:
        assert not Content.alive
        Content.alive += 1
        return Content(members.read(name))

    members = ZipMembers(archives / coco2014.ANNOTATIONS)
    assert len(coco2014.label_table(content).images) == 29
    assert not Content.alive


def test_the_data_sets_own_file() -> None:
    sections = yaml.safe_load((ROOT / "datasets/coco2014/dataset.yaml").read_text())
    needed = parse(Download, {"archives": sections["archives"]}, "archives").to_fetch
    assert {archive.file for archive in needed} == {*coco2014.PHOTOGRAPHS.values(), coco2014.ANNOTATIONS}
    layout = parse(datasets.Layout, sections["images"], "images")
    assert (layout.reader, layout.image_size, layout.storage) == ("coco2014", 448, "encoded")
    assert parse(Recipe, sections["training"], "training").prior == round(193_078 / 65_665, 2)
