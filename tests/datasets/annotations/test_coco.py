"""Annotations in COCO's format: results equal a plain Python parser's; one message reports all faults."""

import json
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mlml.datasets.annotations.coco import parse, parse_file

Json = dict[str, Any]


def small() -> Json:
    """Out of order, with an image without annotations, a category without any, and fields that are not needed."""
    images = {17: "Käse.jpg", 3: "b/c.jpg", 4: "d.jpg"}
    shapes = [{"counts": 'a[]{}"', "size": [4, 5]}, [[1.5, 3e-1, -4]], None, {}]
    pairs = zip([(17, 90), (4, 90), (4, 2), (4, 90)], shapes, strict=True)
    return {
        "info": {"year": 2014, "contributor": None},
        "images": [{"license": 5, "file_name": name, "id": number} for number, name in images.items()],
        "annotations": [{"segmentation": shape, "image_id": i, "category_id": c} for (i, c), shape in pairs],
        "categories": [{"id": number, "name": name} for number, name in {90: "cat", 2: "Hündin", 13: "none"}.items()],
    }


def fault(content: Json | str | bytes) -> str:
    text = json.dumps(content) if isinstance(content, dict) else content
    with pytest.raises(ValueError) as error:
        parse(text.encode() if isinstance(text, str) else text, "a.json")
    return str(error.value)


def expected(content: Json, unlisted: int) -> tuple[list[str], list[list[int]]]:
    """Class names and labels by a plain loop over the annotations."""
    categories = sorted(content["categories"], key=lambda one: (isinstance(one["id"], str), one["id"]))
    has = {(one["image_id"], one["category_id"]) for one in content["annotations"]}
    labels = [[1 if (image["id"], one["id"]) in has else unlisted for one in categories] for image in content["images"]]
    return [one["name"] for one in categories], labels


ids = st.integers(0, 2**70) | st.text(max_size=5)


@st.composite
def files(draw: st.DrawFn) -> Json:
    images, categories = (draw(st.lists(ids, min_size=1, max_size=12, unique=True)) for _ in range(2))
    pairs = draw(st.lists(st.tuples(st.sampled_from(images), st.sampled_from(categories)), max_size=30))
    names = draw(st.lists(st.text(min_size=1).filter(str.strip), min_size=12, max_size=12, unique=True))
    return {
        "images": [{"id": one, "file_name": draw(st.text())} for one in images],
        "annotations": [{"image_id": image, "category_id": category} for image, category in pairs],
        "categories": [{"id": one, "name": name} for one, name in zip(categories, names, strict=False)],
    }


@given(files(), st.sampled_from([0, -1]), st.booleans())
@example(small(), -1, False)
def test_any_file(content: Json, unlisted: int, ascii_only: bool) -> None:
    parsed = parse(json.dumps(content, ensure_ascii=ascii_only).encode(), "a.json")
    names, labels = expected(content, unlisted)
    assert [name for _, name in parsed.categories] == names
    assert parsed.labels(unlisted).tolist() == labels
    assert parsed.labels(unlisted).dtype == np.int8
    assert parsed.ids == [image["id"] for image in content["images"]]
    assert parsed.files == [image["file_name"] for image in content["images"]]
    assert np.unique(parsed.present.rows).tolist() == [row for row, values in enumerate(labels) if 1 in values]


def test_a_file_and_a_memory_map_and_a_byte_order_mark(tmp_path: Path) -> None:
    wanted = parse(json.dumps(small()).encode(), "a.json")
    path = tmp_path / "a.json"
    for mark in (b"", b"\xef\xbb\xbf"):
        path.write_bytes(mark + json.dumps(small(), ensure_ascii=False).encode())
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            for parsed in (parse_file(path), parse(path.read_bytes(), "a.json"), parse(mapped, "a.json")):
                assert parsed[:3] == wanted[:3]
                assert np.array_equal(parsed.labels(0), wanted.labels(0))


def test_a_missing_or_empty_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    needed = "a file of annotations in COCO's form, or say which in images.options.annotations"
    kinds = {"no.json": "missing", "empty.json": "empty", "folder": "a folder", "pipe": "a named pipe"}
    for name, how in kinds.items():
        path = tmp_path / name
        content = b"" if how == "empty" else None
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ValueError) as error:
            parse_file(path)
        assert str(error.value) == f"{path} is {how}; it must be {needed}"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "Input data was truncated"),
        (json.dumps(small())[:-9], "Input data was truncated"),
        (b'\xef\xbb\xbf{"images": [}', "JSON is malformed: invalid character (byte 12)"),
        ("<html>", "JSON is malformed: invalid character (byte 0)"),
        ('{"area": NaN,\n,}', "JSON is malformed: object keys must be strings (byte 15)"),
        ('{"area": 1,\n,}', "JSON is malformed: object keys must be strings (byte 12)"),
        (json.dumps(small()).encode("utf-16"), "JSON is malformed: invalid character (byte 0)"),
        (json.dumps(small(), ensure_ascii=False).encode("latin-1"), "'utf-8' codec can't decode byte 0xe4"),
    ],
)
def test_no_json(content: str | bytes, reason: str) -> None:
    message = fault(content)
    assert message.startswith(f"a.json is no JSON in UTF-8: {reason}") and "\n" not in message


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[]", "Expected `object`, got `array`"),
        ("[" * 100_000, "Expected `object`, got `array`"),
        (f'{{"info": {"[" * 100_000}', "lists in lists, too deep"),
        ('{"images": []}', "Object missing required field `annotations`"),
        ('{"images": {}}', "Expected `array`, got `object` - at `$.images`"),
    ],
)
def test_json_of_something_else(content: str, reason: str) -> None:
    assert fault(content) == f"a.json: not in COCO's form: {reason}"


@pytest.mark.parametrize(
    ("part", "change", "reason"),
    [
        ("images", {"id": None}, "Expected `int | str`, got `null` - at `$.images[1].id`"),
        ("images", {"id": 1.5}, "Expected `int | str`, got `float` - at `$.images[1].id`"),
        ("categories", {"id": 1e17}, "Expected `int | str`, got `float` - at `$.categories[1].id`"),
        ("images", {"file_name": 7}, "Expected `str | null`, got `int` - at `$.images[1].file_name`"),
        (
            "annotations",
            {"image_id": True},
            "Expected `int | str`, got `bool` - at `$.annotations[1].image_id`",
        ),
        ("annotations", {"image_id": ...}, "Object missing required field `image_id` - at `$.annotations[1]`"),
        ("categories", {"name": ...}, "Object missing required field `name` - at `$.categories[1]`"),
    ],
)
def test_fields_that_are_wrong_or_missing(part: str, change: Json, reason: str) -> None:
    content = small()
    content[part][1].update(change)
    content[part][1] = {key: value for key, value in content[part][1].items() if value is not ...}
    assert fault(content) == f"a.json: not in COCO's form: {reason}"


@pytest.mark.parametrize("where", ["first", "last", "escaped"])
def test_a_key_that_stands_twice(tmp_path: Path, where: str) -> None:
    """JSON's decoders keep the last value: all annotations would be dropped without a word."""
    text = json.dumps({"x{": [{"annotations": [], "x": ""}, "}"], **small()}, indent=1)
    key = r'"\u0061nnotations"' if where == "escaped" else '"annotations"'
    again = f"{{ {key}: [], {text[1:]}" if where == "first" else f"{text[:-1]}, {key} :[] }}"
    path = tmp_path / "a.json"
    path.write_text(again)
    with pytest.raises(ValueError) as error:
        parse_file(path)
    assert str(error.value) == f"{path}: the key 'annotations' stands there twice; merge the two, or remove one"
    path.write_text(text)
    parse_file(path)


def test_all_faults_together() -> None:
    lines = fault({"images": [], "annotations": [], "categories": []}).split("\n")
    assert lines == ["a.json: faults: 2", "images: there are none", "categories: there are none"]
    content = small()
    content["images"] += [{"id": 3, "file_name": "e.jpg"}, {"id": 3, "file_name": "f.jpg"}]
    content["categories"] += [{"id": 2, "name": "cow"}, {"id": 5, "name": "cat"}, {"id": 6, "name": " "}]
    content["images"].append({"id": 5.0})
    content["images"][0]["neg_category_ids"] = [7, 90]
    pairs = [(99, 2), (99, 13), ("017", 90), (17, 1), (98.0, 91), (2**60, 2)]
    content["annotations"] += [{"image_id": image, "category_id": category} for image, category in pairs]
    assert fault(content).split("\n") == [
        "a.json: faults: 11",
        "images: id 3 is there 3 times",
        "categories: id 2 is there 2 times",
        "categories: name 'cat' is there 2 times",
        "images: id 5 has no file_name",
        "annotations with image_id 99, no id in images: 2",
        "annotations with image_id '017', no id in images: 1",
        "annotations with image_id 98, no id in images: 1",
        f"annotations with image_id {2**60}, no id in images: 1",
        "annotations with category_id 1, no id in categories: 1",
        "annotations with category_id 91, no id in categories: 1",
        "images with neg_category_ids 7, no id in categories: 1",
    ]


# Forms that tools write


def labels_of(content: Json, unlisted: int = 0) -> list[list[int]]:
    return parse(json.dumps(content).encode(), "a.json").labels(unlisted).tolist()


@pytest.mark.parametrize("of", [str, float])
@pytest.mark.parametrize("part", ["images", "annotations", "categories"])
def test_ids_of_another_type_in_one_part(part: str, of: type) -> None:
    content = small()
    for one in content[part]:
        one.update({key: of(one[key]) for key in ("id", "image_id", "category_id") if key in one})
    order = [0, 1, 2] if (part, of) != ("categories", str) else [1, 0, 2]  # "13" < "2" < "90"
    expected = np.array([[0, 0, 1], [0, 0, 0], [1, 0, 1]])
    names = ["Hündin", "none", "cat"]
    parsed = parse(json.dumps(content).encode(), "a.json")
    assert [name for _, name in parsed.categories] == [names[i] for i in order]
    assert parsed.labels(0).tolist() == expected[:, order].tolist()


def test_an_id_of_another_type_that_could_be_two() -> None:
    content = small()
    content["images"] += [{"id": "17", "file_name": "text.jpg"}, {"id": "5", "file_name": "5.jpg"}]
    content["annotations"] += [{"image_id": "17", "category_id": 2}, {"image_id": 5, "category_id": 2}]
    assert labels_of(content) == [[0, 0, 1], [0, 0, 0], [1, 0, 1], [1, 0, 0], [1, 0, 0]]
    large = 2**53 + 1  # as a float another whole number, here the id of another image
    content = {**small(), "images": [{"id": large + i, "file_name": f"{i}.jpg"} for i in range(2)]}
    content["annotations"] = [{"image_id": float(large), "category_id": 2}]
    assert fault(content) == f"a.json: faults: 1\nannotations with image_id {int(float(large))}, no id in images: 1"


def test_numbers_that_json_lacks() -> None:
    """As pandas and Python write them; within a text they are words."""
    content = small()
    content["images"][0].update(width=float("nan"), file_name='NaN ", -Infinity \\')
    content["annotations"][0].update(area=float("inf"), bbox=[-float("inf"), {"NaN": float("nan")}])
    text = json.dumps(content)
    assert text.count("NaN") == 4 and text.count("Infinity") == 3
    parsed = parse(text.encode(), "a.json")
    assert parsed.files[0] == content["images"][0]["file_name"]
    assert parsed.labels(0).tolist() == labels_of(small())


def lvis() -> Json:
    """As https://www.lvisdataset.org/dataset describes it, and with the positive ids of Detic's files."""
    content = small()
    host = "http://images.cocodataset.org/train2017"
    for image in content["images"]:
        image["coco_url"] = f"{host}/{image['id']:012d}.jpg"
        del image["file_name"]
        image.update(neg_category_ids=[], not_exhaustive_category_ids=[])
    content["images"][0].update(neg_category_ids=[2, 13], not_exhaustive_category_ids=[90])
    content["images"][1].update(neg_category_ids=[2], pos_category_ids=[13])
    return content


def test_lvis() -> None:
    parsed = parse(json.dumps(lvis()).encode(), "a.json")
    assert parsed.files == [f"train2017/{number:012d}.jpg" for number in (17, 3, 4)]
    assert parsed.labels(0).tolist() == [[-1, -1, 1], [-1, 1, 0], [1, 0, 1]]
    assert parsed.federated and not parse(json.dumps(small()).encode(), "a.json").federated
    content = lvis()
    content["images"][0]["neg_category_ids"].append(90)
    content["images"][1]["pos_category_ids"].append(2)
    assert fault(content).split("\n") == [
        "a.json: faults: 2",
        "image id 17: 'cat' is both present and in neg_category_ids",
        "image id 3: 'Hündin' is both present and in neg_category_ids",
    ]


def test_what_may_bear_labels_and_is_not_read_is_named() -> None:
    content = small()
    assert parse(json.dumps(content).encode(), "a.json").notes == []
    marks = [
        {"ignore": 1, "score": 0},
        {"ignore": 0, "score": 0.5, "attributes": {"colour": "red"}},
        {"attributes": {}},
    ]
    for one, mark in zip(content["annotations"], marks, strict=False):
        one.update(mark)
    content["images"][2].update(tags=["night"], split="train")
    assert parse(json.dumps(content).encode(), "a.json").notes == [
        "1 annotations have 'ignore', which is not read: their classes count as present",
        "1 annotations have 'score', which is not read: their classes count as present",
        "1 annotations have 'attributes', which is not read: their classes count as present",
        "1 images have 'tags', which is not read",
        "1 images have 'split', which is not read",
    ]
