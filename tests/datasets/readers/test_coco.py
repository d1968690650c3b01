"""A user's files in COCO's format: splits, labels and images; one message reports all faults."""

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from mlml.images.decoding import decode
from tests.datasets.readers.shared import Reader

READER = Reader("coco", unlisted="absent")
read, fault, faults = READER.read, READER.fault, READER.faults

Json = dict[str, Any]
CATEGORIES = [{"id": 7, "name": "dog"}, {"id": 3, "name": "Käse"}]


def instances(images: dict[Any, str], pairs: list[tuple[Any, Any]], categories: list[Json] = CATEGORIES) -> Json:
    """The content of a file: images by id, (image id, category id) an annotation."""
    return {
        "images": [{"id": number, "file_name": name} for number, name in images.items()],
        "annotations": [{"image_id": image, "category_id": category, "bbox": []} for image, category in pairs],
        "categories": categories,
    }


def brought(root: Path, files: dict[str, Json], images: str = "images", mark: str = "") -> Path:
    """A folder with these files and their images, each in a different grey."""
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(mark + json.dumps(content, ensure_ascii=False), "utf-8")
        for image in content["images"]:
            path = root / images / image["file_name"]
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("L", (4, 3), image["id"] if isinstance(image["id"], int) else 255).save(path)
    return root


SMALL = instances({9: "b.png", 10: "a/ä.png", 11: "c.png"}, [(11, 3), (9, 7), (11, 7), (11, 3)])


@pytest.mark.parametrize(("unlisted", "value"), [("absent", -1), ("unknown", 0)])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_one_file(tmp_path: Path, unlisted: str, value: int, mark: str) -> None:
    source = read(brought(tmp_path, {"instances.json": SMALL}, mark=mark), unlisted=unlisted)
    assert source.table.classes == ("Käse", "dog")
    assert source.table.images == ("a/ä.png", "b.png", "c.png")
    assert source.table.labels.tolist() == [[value, value], [value, 1], [1, 1]]
    assert source.table.split.count("test") == 1  # from one file the splits are drawn
    assert source.places == tuple(
        f"{tmp_path}/instances.json, image id {place}" for place in ("10: a/ä.png", "9: b.png", "11: c.png")
    )
    assert [decode(source.read(row)).getpixel((0, 0)) for row in range(3)] == [(grey,) * 3 for grey in (10, 9, 11)]
    assert source.upright and not read(tmp_path, unlisted=unlisted, upright=False).upright


@pytest.mark.parametrize("validation", ["val", "validation"])
def test_a_file_for_each_split(tmp_path: Path, validation: str) -> None:
    """Files may share ids and order their categories differently."""
    files = {
        "a/train.json": instances({1: "t/1.png", 2: "t/2.png"}, [(1, 7)]),
        "a/val.json": instances({1: "v/1.png"}, [(1, 3)], CATEGORIES[::-1]),
        "a/test.json": instances({5: "s/1.png"}, []),
    }
    brought(tmp_path, files, "pictures")
    names = {"train": "a/train.json", validation: "a/val.json", "test": "a/test.json"}
    source = read(tmp_path, annotations=names, images="pictures", unlisted="unknown")
    assert source.table.images == ("s/1.png", "t/1.png", "t/2.png", "v/1.png")
    assert source.table.split == ("test", "train", "train", "validation")
    assert source.table.labels.tolist() == [[0, 0], [0, 1], [0, 0], [1, 0]]
    assert source.places is not None and source.places[3] == f"{tmp_path}, a/val.json, image id 1: v/1.png"


def test_images_beside_the_file_and_ids_of_text(tmp_path: Path) -> None:
    content = instances(
        {"x": "ü x.png", "y": "y.png"}, [("y", "b")], [{"id": "b", "name": "B"}, {"id": "a", "name": "A"}]
    )
    brought(tmp_path, {"instances.json": content}, ".")
    for options in ({"images": "."}, {}):
        table = read(tmp_path, **options).table
        assert table.classes == ("A", "B")
        assert table.images == ("y.png", "ü x.png")
        assert table.labels.tolist() == [[-1, 1], [-1, -1]]


def test_each_split_with_its_folder(tmp_path: Path) -> None:
    """As Roboflow exports it, and as COCO 2017 lies on disk; the same name may be there in several."""
    files = {
        "train/_annotations.coco.json": instances({0: "a.png", 1: "b.png"}, [(1, 7)]),
        "valid/_annotations.coco.json": instances({2: "a.png"}, [(2, 3)]),
        "test/_annotations.coco.json": instances({3: "c.png"}, [(3, 3)]),
    }
    for name, content in files.items():
        brought(tmp_path, {name: content}, str(Path(name).parent))
    names = dict(zip(("train", "val", "test"), files, strict=True))
    source = read(tmp_path, annotations=names)
    assert source.table.images == ("test/c.png", "train/a.png", "train/b.png", "valid/a.png")
    assert source.table.split == ("test", "train", "train", "validation")
    assert source.table.labels.tolist() == [[1, -1], [-1, -1], [-1, 1], [1, -1]]
    assert [decode(source.read(row)).getpixel((0, 0)) for row in range(4)] == [(grey,) * 3 for grey in (3, 0, 1, 2)]
    assert source.notes == ()

    (tmp_path / "annotations").mkdir()
    for key, name in names.items():
        (tmp_path / name).rename(tmp_path / f"annotations/{key}.json")
    names = {key: f"annotations/{key}.json" for key in names}
    folders = {"train": "train", "val": "valid", "test": "test"}
    again = read(tmp_path, annotations=names, images=folders)
    assert again.table.images == source.table.images and again.table.labels.tolist() == source.table.labels.tolist()
    line = "images.options.images: must be one path, or have the keys of annotations"
    assert fault(tmp_path, annotations=names, images={"train": "train"}) == line
    line = "FOLDER/images is missing; it is the folder of the images, or say which in images.options.images"
    assert fault(tmp_path, annotations=names) == line


@pytest.mark.parametrize(
    "form", ["images/{}.png", "../../label-studio/upload/1/{}.png", "images\\{}.png", "{}", "{}.PNG"]
)
def test_names_as_tools_write_them(tmp_path: Path, form: str) -> None:
    brought(tmp_path, {"instances.json": instances({1: "a.png", 2: "b.png"}, [(1, 7)])})
    content = instances({1: form.format("a"), 2: form.format("b")}, [(1, 7)])
    (tmp_path / "instances.json").write_text(json.dumps(content))
    (tmp_path / "images/more.png").touch()
    source = read(tmp_path)
    assert source.table.images == (form.format("a"), form.format("b"))
    assert source.table.labels.tolist() == [[-1, 1], [-1, -1]]
    assert [decode(source.read(row)).getpixel((0, 0)) for row in range(2)] == [(1,) * 3, (2,) * 3]
    assert source.notes == (
        f"2 images are not listed under the names of their files, as {form.format('a')!r} for 'a.png'",
        f"1 pictures in {tmp_path}/images are not in the labels, as 'more.png'",
    )


def test_lvis(tmp_path: Path) -> None:
    content = instances({17: "train2017/17.png", 3: "train2017/3.png"}, [(17, 7)])
    brought(tmp_path, {"instances.json": content})
    for image in content["images"]:
        image["coco_url"] = f"http://images.cocodataset.org/{image.pop('file_name')}"
        image["neg_category_ids"] = [3] if image["id"] == 17 else []
    content["annotations"][0]["score"] = 0.5
    (tmp_path / "instances.json").write_text(json.dumps(content))
    source = read(tmp_path, unlisted="unknown")
    assert source.table.images == ("train2017/17.png", "train2017/3.png")
    assert source.table.labels.tolist() == [[-1, 1], [0, 0]]
    line = f"{tmp_path}/instances.json: 1 annotations have 'score', which is not read: their classes count as present"
    assert source.notes == (line,)
    assert fault(tmp_path) == (
        "FOLDER/instances.json has lists of negatives (neg_category_ids), as LVIS: other classes were not looked for; "
        "set images.options.unlisted to unknown"
    )


def test_two_ids_of_one_file(tmp_path: Path) -> None:
    """Their labels are combined if they agree."""
    content = instances({1: "a.png", 2: "b.png"}, [(1, 7), (3, 3), (3, 7), (2, 3)])
    brought(tmp_path, {"instances.json": content})
    content["images"].insert(0, {"id": 3, "file_name": "a.png"})
    (tmp_path / "instances.json").write_text(json.dumps(content))
    source = read(tmp_path, unlisted="unknown")
    assert source.table.images == ("a.png", "b.png")
    assert source.table.labels.tolist() == [[1, 1], [1, 0]]
    assert source.notes == (
        "1 images are listed again, as 'a.png' (image id 3, image id 1): their labels are combined",
    )
    assert faults(tmp_path) == [
        "image id 1: image 'a.png' stands in image id 3 too, where class 'Käse' is present, not absent; "
        "correct or merge the two"
    ]


# What can be wrong


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({}, "images.options.unlisted: missing"),
        ({"unlisted": "present"}, "images.options.unlisted: 'present' is not allowed; must be 'absent' or 'unknown'"),
        ({"annotations": 3}, "images.options.annotations: 3 is not allowed; {0}"),
        ({"annotations": ""}, "images.options.annotations: '' is not allowed; {0}"),
        ({"annotations": {}}, "images.options.annotations: {{}} is not allowed; {0}"),
        ({"annotations": {"dev": "a.json"}}, "images.options.annotations: {{'dev': 'a.json'}} is not allowed; {0}"),
        ({"annotations": {"val": 3}}, "images.options.annotations: {{'val': 3}} is not allowed; {0}"),
        ({"annotations": "../a.json"}, "images.options.annotations: '../a.json' is not allowed; {1}"),
        ({"annotations": "/a.json"}, "images.options.annotations: '/a.json' is not allowed; {1}"),
        ({"annotations": {"val": "../a.json"}}, "images.options.annotations.val: '../a.json' is not allowed; {1}"),
        ({"images": ".."}, "images.options.images: '..' is not allowed; {1}"),
        ({"image": "a"}, "images.options.image: unknown key; it takes annotations, images, unlisted, upright"),
    ],
)
def test_wrong_options(tmp_path: Path, options: dict[str, Any], line: str) -> None:
    must = ("must be a path, or a path each under some of train, validation, val, test", "must be a path below FOLDER")
    assert (READER if options else Reader("coco")).fault(tmp_path, **options) == line.format(*must)


def test_a_fault_within_a_file_is_reported_with_its_name(tmp_path: Path) -> None:
    brought(tmp_path, {"instances.json": SMALL, "val.json": instances({1: "v.png"}, [(2, 3)])})
    message = fault(tmp_path, annotations={"train": "instances.json", "val": "val.json"})
    assert message == "FOLDER/val.json: faults: 1\nannotations with image_id 2, no id in images: 1"


def test_what_is_not_there(tmp_path: Path) -> None:
    reason = "FOLDER/{} is missing; it is the folder of the images, or say which in images.options.images"
    assert fault(tmp_path) == fault(tmp_path, annotations="sub/a.json") == reason.format("images")
    assert fault(tmp_path, images="none") == reason.format("none")
    brought(tmp_path, {"instances.json": SMALL}, "photos")
    assert fault(tmp_path) == reason.format("images")
    brought(tmp_path, {"instances.json": SMALL})
    needed = "a file of annotations in COCO's form, or say which in images.options.annotations"
    reason = f"FOLDER/val.json is missing; it must be {needed}"
    assert fault(tmp_path, annotations={"train": "instances.json", "val": "val.json"}) == reason


def test_all_faults_of_images_with_their_ids(tmp_path: Path) -> None:
    root = tmp_path / "mine"
    brought(root, {"instances.json": SMALL})
    outside = tmp_path / "outside.png"
    Image.new("L", (4, 3)).save(outside)
    names = {1: "b.png", 2: "../../outside.png", 3: str(outside), 4: "no.png", "x": "a", 6: "a/../b.png"}
    (root / "instances.json").write_text(json.dumps(instances(names, [(1, 7)])))
    assert faults(root) == [
        "image id 2: image '../../outside.png' lies outside of FOLDER/images; put it into the folder",
        f"image id 3: image '{outside}' lies outside of FOLDER/images; put it into the folder",
        "image id 4: image 'no.png' is missing",
        "image id x: image 'a' is missing: it is a folder",
        "image id 6: image 'a/../b.png' stands in image id 1 too, where class 'dog' is present, not absent; "
        "correct or merge the two",
    ]


def test_an_image_in_two_splits(tmp_path: Path) -> None:
    files = {"train.json": SMALL, "test.json": instances({1: "b.png"}, [])}
    brought(tmp_path, files)
    assert faults(tmp_path, annotations={"train": "train.json", "test": "test.json"}) == [
        "test.json, image id 1: image 'b.png' is in two splits, train (train.json, image id 9) and test; "
        "a photograph belongs in one"
    ]


@pytest.mark.parametrize(
    ("categories", "reason"),
    [
        ([*CATEGORIES, {"id": 8, "name": "cow"}], "has the category 'cow' (id 8), unlike"),
        (CATEGORIES[:1], "lacks the category 'Käse' (id 3), unlike"),
        ([CATEGORIES[0], {"id": 4, "name": "Käse"}], "has the category 'Käse' (id 4), unlike"),
    ],
)
def test_files_with_other_categories(tmp_path: Path, categories: list[Json], reason: str) -> None:
    brought(tmp_path, {"train.json": SMALL, "val.json": instances({1: "v.png"}, [], categories)})
    message = fault(tmp_path, annotations={"train": "train.json", "val": "val.json"})
    assert message == f"FOLDER/val.json: {reason} FOLDER/train.json; they must have the same"
