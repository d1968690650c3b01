"""Images with an XML file each: accepted variants, no guesses; one reason reports all faults."""

import os
import sys
import unicodedata
from pathlib import Path
from typing import Literal
from xml.sax.saxutils import escape

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.datasets.readers.shared import Reader

READER = Reader("voc_xml", unlisted="absent")
read, fault, faults = READER.read, READER.fault, READER.faults

Objects = list[tuple[str, int | None]]  # class and, where it is written, whether the object is difficult


def xml(filename: str, objects: Objects) -> str:
    """As LabelImg writes it."""
    parts = "".join(
        f"\t<object>\n\t\t<name>{escape(name)}</name>\n\t\t<pose>Unspecified</pose>\n"
        + ("" if flag is None else f"\t\t<difficult>{flag}</difficult>\n")
        + "\t\t<bndbox>\n\t\t\t<xmin>1</xmin>\n\t\t</bndbox>\n"
        + "\t\t<part><name>head</name></part>\n\t</object>\n"
        for name, flag in objects
    )
    return f"<annotation>\n\t<folder>x</folder>\n\t<filename>{escape(filename)}</filename>\n{parts}</annotation>\n"


FILES: dict[str, Objects] = {
    "a": [("dog", 0), ("dog", 1), ("cat", 1)],
    "b": [],
    "c": [("cat", None)],
    "d": [("person", 1), ("person", 1)],
}


def brought(folder: Path, files: dict[str, Objects] = FILES, **lists: str) -> Path:
    """A folder with these XML files, a placeholder image for each, and lists of the splits."""
    for name in ("Annotations", "JPEGImages"):
        (folder / name).mkdir()
    for stem, objects in files.items():
        (folder / f"Annotations/{stem}.xml").write_text(xml(f"{stem}.jpg", objects), "utf-8")
        (folder / f"JPEGImages/{stem}.jpg").write_bytes(stem.encode())
    for name, stems in lists.items():
        (folder / "ImageSets/Main").mkdir(parents=True, exist_ok=True)
        (folder / f"ImageSets/Main/{name}.txt").write_text("\n".join(stems.split()) + "\n")
    return folder


def write(folder: Path, stem: str, text: str | bytes) -> None:
    (folder / f"Annotations/{stem}.xml").write_bytes(text.encode() if isinstance(text, str) else text)


@pytest.mark.parametrize(("unlisted", "u"), [("absent", -1), ("unknown", 0)])
@pytest.mark.parametrize(("difficult", "d"), [("present", 1), ("absent", -1), ("unknown", 0)])
def test_a_folder(tmp_path: Path, unlisted: str, u: int, difficult: str, d: int) -> None:
    source = read(brought(tmp_path, train="d a", val="b", test="c"), unlisted=unlisted, difficult=difficult)
    table = source.table
    assert table.classes == ("cat", "dog", "person")
    assert table.images == ("a.jpg", "b.jpg", "c.jpg", "d.jpg")
    assert table.split == ("train", "validation", "test", "train")
    assert table.labels.dtype == np.int8
    assert table.labels.tolist() == [[d, 1, u], [u, u, u], [1, u, u], [u, u, d]]
    assert [source.read(row) for row in range(4)] == [b"a", b"b", b"c", b"d"]
    assert source.upright
    assert source.places is not None and source.places[2].endswith("Annotations, c.xml: c.jpg")


def test_without_options_and_lists(tmp_path: Path) -> None:
    """Difficult objects are absent, and the splits are drawn."""
    table = read(brought(tmp_path), unlisted="unknown").table
    assert table.labels.tolist() == [[-1, 1, 0], [0, 0, 0], [1, 0, 0], [0, 0, -1]]
    assert table.split.count("test") == 1
    assert Reader("voc_xml").fault(tmp_path) == "images.options.unlisted: missing"


def test_given_classes(tmp_path: Path) -> None:
    table = read(brought(tmp_path), classes=["zebra", "person", "dog", "cat"]).table
    assert table.classes == ("zebra", "person", "dog", "cat")
    assert table.labels.tolist() == [[-1, -1, 1, -1], [-1] * 4, [-1, -1, -1, 1], [-1] * 4]
    tail = "is not in images.options.classes"
    assert faults(tmp_path, classes=["dog", "cat"]) == [f"d.xml: object {i}: class 'person' {tail}" for i in (1, 2)]
    assert fault(tmp_path, classes=["dog", "cat", "person", "dog"]) == "images.options.classes: 'dog' is there twice"


NAMES = st.text("abé &<>'\"-", min_size=1, max_size=3).map(str.strip).filter(bool)
OBJECTS = st.lists(st.tuples(NAMES, st.sampled_from([None, 0, 1])), max_size=5)


@settings(max_examples=50)
@given(st.lists(OBJECTS, min_size=1, max_size=5), st.sampled_from(["absent", "unknown"]))
def test_each_label_is_where_it_belongs(
    tmp_path_factory: pytest.TempPathFactory, images: list[Objects], unlisted: str
) -> None:
    folder = brought(tmp_path_factory.mktemp("xml"), dict(zip("abcde", images, strict=False)))
    names = sorted({name for objects in images for name, _ in objects})
    if not names:
        assert fault(folder, unlisted=unlisted) == "FOLDER/Annotations: no XML file has an object"
        return
    table = read(folder, unlisted=unlisted, difficult="unknown").table
    assert table.classes == tuple(names)
    for objects, row in zip(images, table.labels.tolist(), strict=True):
        for name, label in zip(names, row, strict=True):
            flags = [flag for other, flag in objects if other == name]
            if any(flag != 1 for flag in flags):
                assert label == 1
            else:
                assert label == (0 if flags else {"absent": -1, "unknown": 0}[unlisted])


# Which image, which split


def test_which_image(tmp_path: Path) -> None:
    folder = brought(tmp_path)
    for name in ("sub", "c.jpg.d"):
        (folder / "JPEGImages" / name).mkdir()
    for name in ("sub/Bild 1.JPG", "b.BMP", "c.tif", "d.png"):
        (folder / "JPEGImages" / name).write_bytes(name.encode())
    for stem in "abc":
        (folder / f"JPEGImages/{stem}.jpg").unlink()
    write(folder, "a", xml("sub/Bild 1.JPG", FILES["a"]))  # the one that it names
    write(folder, "b", xml("IMG_7.jpg", FILES["b"]))  # the one of its own name
    write(folder, "c", xml("C:\\photos\\c.jpg", FILES["c"]))
    source = read(folder)
    assert source.table.images == ("b.BMP", "c.tif", "d.jpg", "sub/Bild 1.JPG")
    assert [source.read(row).decode() for row in range(4)] == ["b.BMP", "c.tif", "d", "sub/Bild 1.JPG"]
    assert source.notes == (f"1 pictures in {folder}/JPEGImages are not in the labels, as 'd.png'",)
    (folder / "JPEGImages/d.png").unlink()
    write(folder, "d", xml(str(folder / "JPEGImages/d.jpg"), FILES["d"]))  # an absolute path means nothing elsewhere
    assert read(folder).table.images[2] == "d.jpg" and read(folder).notes == ()


def test_an_image_that_is_not_sure(tmp_path: Path) -> None:
    """XML files and pictures that were renamed still have the old names inside; all of them exist."""
    folder = brought(tmp_path, train="a b c d e")
    write(folder, "a", xml("b.jpg", FILES["a"]))
    write(folder, "b", xml("c.jpg", FILES["b"]))
    write(folder, "c", xml("a.jpg", FILES["c"]))
    write(folder, "d", xml("e.jpg", FILES["d"]))
    (folder / "JPEGImages/d.webp").touch()
    (folder / "JPEGImages/f.jpg").touch()
    write(folder, "e", xml("f.jpg", FILES["d"]))
    (folder / "JPEGImages/old").mkdir()
    (folder / "JPEGImages/old/e.jpg").touch()  # only pictures beside the named one are in doubt
    tail = "too; correct it, or move that file away"
    assert faults(folder) == [
        f"a.xml: its <filename> is 'b.jpg', but there is 'a.jpg' {tail}",
        f"b.xml: its <filename> is 'c.jpg', but there is 'b.jpg' {tail}",
        f"c.xml: its <filename> is 'a.jpg', but there is 'c.jpg' {tail}",
        "d.xml: image 'd' could be 'd.jpg' or 'd.webp'; write the name in full",
    ]


def test_each_split_in_a_folder(tmp_path: Path) -> None:
    """As Roboflow exports it: XML files beside the pictures; the same name may be there in several folders."""
    parts = {"train": "a b", "valid": "c a", "test": "d"}
    for part, stems in parts.items():
        (tmp_path / part).mkdir()
        for stem in stems.split():
            (tmp_path / f"{part}/{stem}.xml").write_text(xml(f"{stem}.jpg", FILES[stem]))
            (tmp_path / f"{part}/{stem}.jpg").write_text(f"{part} {stem}")
    (tmp_path / "valid/._c.xml").write_bytes(b"\0\5\26\7")  # as macOS adds
    source = read(tmp_path, annotations={"train": "train", "val": "valid", "test": "test"})
    assert source.table.images == ("test/d.jpg", "train/a.jpg", "train/b.jpg", "valid/a.jpg", "valid/c.jpg")
    assert source.table.split == ("test", "train", "train", "validation", "validation")
    assert source.table.labels.tolist() == [[-1, -1, -1], [-1, 1, -1], [-1] * 3, [-1, 1, -1], [1, -1, -1]]
    assert [source.read(row).decode() for row in range(5)] == ["test d", "train a", "train b", "valid a", "valid c"]
    assert source.notes == ()
    (tmp_path / "valid/c.xml").write_text("<annotation/>")
    assert faults(tmp_path, annotations={"train": "train", "val": "valid"}) == ["valid/c.xml: there is no <filename>"]
    table = read(tmp_path, annotations="train", images="train").table
    assert table.images == ("a.jpg", "b.jpg")


def test_xml_files_that_differ_in_the_case_of_their_suffix_are_all_read(tmp_path: Path) -> None:
    folder = brought(tmp_path, {"a": [("dog", 0)]}, train="a")
    (folder / "Annotations/a.XML").write_text(xml("a.jpg", [("cat", 0)]))
    assert faults(folder) == [
        "a.xml: image 'a.jpg' stands in a.XML too, where class 'cat' is present, not absent; correct or merge the two"
    ]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_names_of_macos(tmp_path: Path, form: Literal["NFC", "NFD"]) -> None:
    def name(text: str) -> str:
        return unicodedata.normalize(form, text)

    folder = brought(tmp_path, {name("é"): [("dog", 0)], "b": []}, train="é b")
    write(folder, name("é"), xml("é.jpg", [("dog", 0)]))
    source = read(folder)
    assert source.table.labels.tolist() == [[-1], [1]]
    assert source.read(1).decode() == name("é")


def test_images_that_are_not_there(tmp_path: Path) -> None:
    folder = brought(tmp_path)
    for stem in "abd":
        (folder / f"JPEGImages/{stem}.jpg").unlink()
    (folder / "x.jpg").touch()
    write(folder, "b", xml("../x.jpg", []))
    write(folder, "d", xml("c.jpg", FILES["c"]))
    assert faults(folder) == [
        "a.xml: image 'a.jpg' is missing",
        "b.xml: image '../x.jpg' lies outside of FOLDER/JPEGImages; put it into the folder",
        "d.xml: image 'c.jpg' stands in c.xml too, with the same labels; remove one of them",
    ]


def test_other_folders(tmp_path: Path) -> None:
    folder = brought(tmp_path, train="a b", val="c", test="d")
    (folder / "Annotations").rename(folder / "xml")
    (folder / "JPEGImages").rename(folder / "photos")
    (folder / "ImageSets/Main").rename(folder / "splits")
    (folder / "xml/classes.txt").write_text("dog\ncat\n")
    (folder / "xml/a.xml").rename(folder / "xml/a.XML")
    table = read(folder, annotations="xml", images="photos", splits="splits").table
    assert table.split == ("train", "train", "validation", "test")
    assert table.labels[0].tolist() == [-1, 1, -1]


def test_all_faults_of_the_lists_together(tmp_path: Path) -> None:
    folder = brought(tmp_path, train="a b a none", val="c.jpg", test="b")
    (folder / "ImageSets/Main/train.txt").write_bytes(b"\xef\xbb\xbfa\r\nb  \r\n\r\na\r\nnone\r\n")
    assert faults(folder) == [
        "train.txt, line 5: 'none' is not the name of an XML file, without .xml",
        "val.txt, line 1: 'c.jpg' is not the name of an XML file, without .xml",
        "b.xml: is in train.txt and in test.txt",
        "c.xml: is in none of train.txt, val.txt, test.txt",
        "d.xml: is in none of train.txt, val.txt, test.txt",
    ]


@pytest.mark.parametrize(
    ("lists", "split"),
    [
        ({"trainval": "a b", "test": "c d"}, ["train", "train", "test", "test"]),
        ({"trainval": "a b", "val": "b", "test": "c d"}, ["train", "validation", "test", "test"]),
        ({"trainval": "a b", "train": "a", "test": "c d"}, ["train", "validation", "test", "test"]),
        ({"trainval": "none", "train": "a", "val": "b", "test": "c d"}, ["train", "validation", "test", "test"]),
    ],
)
def test_the_list_of_train_and_val(tmp_path: Path, lists: dict[str, str], split: list[str]) -> None:
    found = list(read(brought(tmp_path, **lists)).table.split)
    if set(lists) == {"trainval", "test"}:  # validation images are drawn
        found = ["train" if word == "validation" else word for word in found]
    assert found == split


def test_images_in_the_list_of_train_and_val_and_in_that_of_test(tmp_path: Path) -> None:
    assert faults(brought(tmp_path, trainval="a b c", test="c")) == [
        "c.xml: is in test.txt and in trainval.txt",
        "d.xml: is in none of test.txt, trainval.txt",
    ]


def test_names_of_classes_that_mislead(tmp_path: Path) -> None:
    brought(tmp_path, {"a": [("cat", 0)], "b": [("cat", 0), ("c\u200bat", 0)]}, train="a b")
    assert faults(tmp_path) == ["b.xml: the classes 'cat' and 'c\\u200bat' look the same; write one"]


def test_a_folder_of_lists_without_these_lists(tmp_path: Path) -> None:
    assert fault(brought(tmp_path, seen="a b c d")) == (
        "FOLDER/ImageSets/Main has none of train.txt, val.txt, test.txt; remove the folder to have the images split"
    )
    (tmp_path / "ImageSets/Main/train.txt").touch()  # an empty one counts as a list
    assert faults(tmp_path)[0] == "a.xml: is in none of train.txt"


@pytest.mark.parametrize("option", ["annotations", "images", "splits"])
def test_folders_that_are_missing(tmp_path: Path, option: str) -> None:
    brought(tmp_path)
    assert fault(tmp_path, **{option: "none"}).startswith("FOLDER/none is missing; it ")
    assert fault(tmp_path, **{option: "/none"}).startswith(f"images.options.{option}: '/none' is not allowed")


# What can be wrong with a file

PAIRS = zip("abcdefghi", "bcdefghij", strict=True)
ENTITIES = "".join("<!ENTITY {} '{}'>".format(name, f"&{of};" * 10) for of, name in PAIRS)
BOMB = f'<!DOCTYPE x [<!ENTITY a "ha">{ENTITIES}]>\n<annotation><filename>&j;</filename></annotation>'
OUTSIDE = '<!DOCTYPE x [<!ENTITY a SYSTEM "{}">]>\n<annotation><filename>&a;</filename></annotation>'


def test_all_faults_together(tmp_path: Path) -> None:
    folder = brought(tmp_path, {stem: [("dog", 0)] for stem in "abcdefghijkl"})
    (folder / "secret").write_text("secret")
    write(folder, "a", "<annotation>")
    write(folder, "b", "")
    write(folder, "c", BOMB)
    write(folder, "d", OUTSIDE.format((folder / "secret").as_uri()))
    write(folder, "e", b"<annotation><filename>\xff</filename></annotation>")
    write(folder, "f", '<?xml version="1.0" encoding="klingon"?><annotation/>')
    write(folder, "g", "<annotation><filename>&x;</filename></annotation>")
    write(folder, "h", "<annotation><filename> </filename><object><pose/></object></annotation>")
    write(folder, "i", xml("i.jpg", [("dog", 0), (" ", 0), ("cat", 2)]))
    write(folder, "j", '{"filename": "j.jpg"}')
    lines = faults(folder)
    for line, stem in zip(lines[:7], "abcdefg", strict=True):
        assert line.startswith(f"{stem}.xml: no XML that can be read: ")
    assert lines[2:4] == [
        f"{stem}.xml: no XML that can be read: it has a DOCTYPE, which is not read; remove it" for stem in "cd"
    ]
    assert lines[7:9] == ["h.xml: there is no <filename>", "h.xml: object 1 has no <name>"]
    assert lines[9].startswith("j.xml: no XML that can be read: ")
    assert lines[10:] == ["i.xml: object 2 has no <name>", "i.xml: object 3: <difficult> is '2', not 0 or 1"]
    assert "secret" not in "".join(lines).replace("FOLDER/secret", "")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    folder = brought(tmp_path, {"a": [], "b": [("dog", 0)]})
    text = f'<?xml version="1.0" encoding="{encoding}"?>\n' + xml("a.jpg", [("Käse", 0)])
    write(folder, "a", text.encode(encoding))
    assert read(folder).table.classes == ("Käse", "dog")
    write(folder, "a", BOMB.encode(encoding))
    assert faults(folder)[0].startswith("a.xml: no XML that can be read: ")


def test_other_spellings(tmp_path: Path) -> None:
    """Tags in other cases or a namespace; LabelMe keeps the objects that were deleted."""
    folder = brought(tmp_path, {"a": [("dog", 1), ("cat", 0)], "b": [("dog", 0)], "c": [("cow", 0)]})
    text = xml("a.jpg", [("dog", 1), ("cat", 0)])
    for old, new in (("difficult", "Difficult"), ("object", "Object"), ("filename", "fileName")):
        text = text.replace(f"<{old}>", f"<{new}>").replace(f"</{old}>", f"</{new}>")
    write(
        folder, "a", text.replace("<annotation>", '<annotation xmlns="http://host/voc">').replace(">1</D", "> True </D")
    )
    write(folder, "c", xml("c.jpg", [("cow", 0)]).replace("</object>", "<deleted>1</deleted></object>"))
    table = read(folder).table
    assert table.classes == ("cat", "dog")
    assert table.labels.tolist() == [[1, -1], [-1, 1], [-1, -1]]


def test_objects_that_would_be_lost(tmp_path: Path) -> None:
    folder = brought(tmp_path, {"a": [("dog", 0)], "b": [("dog", 0)]})
    text = xml("a.jpg", [("dog", 0)])
    write(folder, "a", text.replace("<object>", "<objects><object>").replace("</object>", "</object></objects>"))
    write(folder, "b", xml("b.jpg", [("dog", 0)]).replace("</name>", "</name><name>cat</name>", 1))
    assert faults(folder) == [
        "a.xml: objects within other elements, where they are not looked for: 1",
        "b.xml: object 1 has several <name>",
    ]


def test_what_is_no_file_or_too_large(tmp_path: Path) -> None:
    folder = brought(tmp_path, {"a": [], "b": [], "c": [("dog", 0)]}, train="a b c")
    (folder / "Annotations/a.xml").unlink()
    os.mkfifo(folder / "Annotations/a.xml")
    with (folder / "Annotations/b.xml").open("ab") as file:
        file.truncate(1 << 25)
    assert faults(folder) == [
        "a.xml: no XML that can be read: it is a named pipe, not a file",
        "b.xml: no XML that can be read: it has 33,554,432 bytes; at most 8,388,608 are read",
    ]
    (folder / "ImageSets/Main/train.txt").unlink()
    os.mkfifo(folder / "ImageSets/Main/train.txt")
    assert fault(folder) == "FOLDER/ImageSets/Main/train.txt is a named pipe; it must be a list of XML files"


def test_deep_nesting(tmp_path: Path) -> None:
    folder = brought(tmp_path, {"a": [], "b": [("dog", 0)]})
    depth = 20 * sys.getrecursionlimit()
    write(folder, "a", xml("a.jpg", []).replace("x</folder>", "<x>" * depth + "</x>" * depth + "</folder>"))
    assert read(folder).table.labels.tolist() == [[-1], [1]]
