"""Files are found under the names that tools write, where only one fits; what fits none or several is refused."""

import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mlml.datasets.files.image_files import ImageFiles, comparable, is_picture, pictures
from mlml.datasets.files.regular_files import is_utf8

NFC, NFD = "K\u00e4se", "Ka\u0308se"


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.JPG", "a.jpg"),
        (" A b.Jpeg ", "A b.jpeg"),
        ("Ka\u0308se.png", "K\u00e4se.png"),
        ("K\udce4se.png", "K\u00e4se.png"),  # in Latin-1 on disk
        ("a.TXT", "a.TXT"),
        ("2020.01.JPG", "2020.01.jpg"),
        ("JPG", "JPG"),
    ],
)
def test_the_form_of_a_name(name: str, form: str) -> None:
    assert comparable(name) == form


def test_pictures_by_their_names() -> None:
    names = ("a.jpg", "a.HEIC", "a.tif ", "._a.jpg", ".jpg", "a.xml", "jpg")
    assert [is_picture(name) for name in names] == [True] * 3 + [False] * 4


@given(st.text())
@example("a\udcff")
def test_any_name(name: str) -> None:
    assert comparable(comparable(name)) == comparable(name) or not is_utf8(name)
    assert is_utf8(name) == (name == name.encode("utf-8", "ignore").decode())


def folder(root: Path, *names: str | bytes) -> Path:
    """A folder with these files, empty; a name that ends in / is a folder."""
    for name in names:
        path = os.path.join(os.fsencode(root), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not path.endswith(b"/"):
            Path(os.fsdecode(path)).touch()
    return root


def refusal(root: Path, name: str) -> str:
    with pytest.raises(ValueError) as error:
        ImageFiles(root).find(name)
    return str(error.value).replace(str(root), "FOLDER")


@pytest.mark.parametrize(
    ("there", "name"),
    [
        ("images/a.jpg", "images/a.jpg"),
        ("images/a.jpg", "images\\a.jpg"),
        ("images/a.jpg", "./images//a.jpg"),
        ("images/a.jpg", "images/a"),
        ("images/a.JPG", "images/a"),
        ("images/a.JPG", "images/a.jpg"),
        ("images/a.jpeg", "images/a.JPEG"),
        (f"images/{NFD}.jpg", f"images/{NFC}.jpg"),
        (f"{NFC}/{NFC}.jpg", f"{NFD}/{NFD}.jpg"),
        ("a.jpg ", "a.jpg"),
        ("a.jpg", " a.jpg "),
        ("2020.01.01.png", "2020.01.01"),
        (".a.jpg", ".a.jpg"),
        ("data.txt", "data.txt"),
        ("a.jpg", "images/a.jpg"),
        ("a.jpg", "../../label-studio/media/upload/1/a.jpg"),
        ("upload/1/a.jpg", "../../label-studio/media/upload/1/a.jpg"),
        ("a.jpg", "/data/upload/a.jpg"),
        ("photos/a.jpg", "C:\\Users\\me\\photos\\a.JPG"),
        ("train2017/a b.jpg", "http://images.cocodataset.org/train2017/a%20b.jpg?size=large#top"),
        ("a.jpg", "file:///data/a.jpg"),
    ],
)
def test_one_file_that_fits(tmp_path: Path, there: str, name: str) -> None:
    assert ImageFiles(folder(tmp_path, there, "b.jpg", "._a.jpg", "a/", "z/a.jpg")).find(name) in (there, name)
    assert os.path.isfile(tmp_path / ImageFiles(tmp_path).find(name))


def test_the_file_of_this_very_name_before_others(tmp_path: Path) -> None:
    files = ImageFiles(folder(tmp_path, "a", "a.jpg", "a.JPG", "a.jpg ", "images/a.jpg", "b/", "b.png", "c/d.jpg"))
    for name in ("a", "a.jpg", "a.JPG", "a.jpg ", "images/a.jpg"):
        assert files.find(name) == name
    assert files.find("b") == "b.png"
    assert files.find("x/images/a.jpg") == "images/a.jpg"  # the longest end
    assert files.find("../a.JPG") == "a.JPG"


@pytest.mark.parametrize(
    "name", ["a.png", "a", "a.PNG", "x/a.png", "/data/upload/1/a.png", "https://host/a.png", f"{NFC}.jpg"]
)
def test_the_only_picture_of_this_name_in_any_folder(tmp_path: Path, name: str) -> None:
    root = folder(
        tmp_path, "images_001/images/a.png", "images_002/images/b.png", ".old/a.png", "a.txt", "loop/", f"c/{NFD}.jpg"
    )
    (root / "loop/a.png").symlink_to("a.png")
    assert ImageFiles(root).find(name) == (f"c/{NFD}.jpg" if NFC in name else "images_001/images/a.png")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.png", "could be 'one/a.PNG' or 'two/sub/a.png'; write the name in full"),
        ("upload/a", "could be 'one/a.PNG' or 'two/sub/a.png'; write the name in full"),
        ("one/b.png", "is missing; there is 'two/b.png'"),  # their folder is there
        ("x/one/b.png", "is missing; there is 'two/b.png'"),
        ("b.jpg", "is missing; there is 'two/b.png'"),
    ],
)
def test_no_or_several_pictures_of_this_name_in_any_folder(tmp_path: Path, name: str, message: str) -> None:
    assert refusal(folder(tmp_path, "one/a.PNG", "two/sub/a.png", "two/b.png"), name) == message


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("d", "could be 'd.JPG' or 'd.png'; write the name in full"),
        ("x/d", "could be 'd.JPG' or 'd.png'; write the name in full"),
        ("e.Jpg", "could be 'e.JPG' or 'e.jpg'; write the name in full"),
        ("images/d.png", "is missing; there is 'd.png'"),  # its folder is there
        ("images/a.webp", "is missing; there is 'a.jpg'"),
        ("images/A.jpg", "is missing; there is 'a.jpg'"),
        ("images/A.jpeg", "is missing; there is 'a.jpg'"),
        ("images", "is missing: it is a folder"),
        ("", "is missing: it is a folder"),
        ("pipe.png", "is missing: it is a named pipe"),
        ("loop.png", "is missing: it is a link that leads nowhere"),
        ("a\0.jpg", "is missing"),
        ("x" * 300, "is missing"),
        ("._hidden", "is missing"),
        ("../none.jpg", "lies outside of FOLDER; put it into the folder"),
        ("/none.jpg", "lies outside of FOLDER; put it into the folder"),
        ("../outside.jpg", "lies outside of FOLDER; put it into the folder"),
        ("../d.JPG", "lies outside of FOLDER; put it into the folder, or write 'd.JPG' if that is the same"),
        ("https://host/none.jpg", "is on the web; put it into FOLDER"),
        ("http://[host/none.jpg", "is on the web; put it into FOLDER"),
        ("latin/K\u00e4se.jpg", "is the file b'latin/K\\xe4se.jpg', whose name is not UTF-8; rename the file"),
    ],
)
def test_none_or_several(tmp_path: Path, name: str, message: str) -> None:
    root = folder(
        tmp_path / "mine", "d.JPG", "d.png", "e.JPG", "e.jpg", "images/a.jpg", "._hidden.jpg", b"latin/K\xe4se.jpg"
    )
    folder(tmp_path, "outside.jpg", "d.JPG")
    os.mkfifo(root / "pipe.png")
    (root / "loop.png").symlink_to("loop.png")
    assert refusal(root, name) == message


def test_pictures_that_are_not_named(tmp_path: Path) -> None:
    root = folder(tmp_path, "a.jpg", "b/c.PNG", "b/d.heic ", "b/e.txt", ".git/f.jpg", "__MACOSX/g.jpg", "b/._c.PNG")
    (root / "link.jpg").symlink_to("a.jpg")
    assert sorted(pictures(root)) == [str(root / name) for name in ("a.jpg", "b/c.PNG", "b/d.heic ", "link.jpg")]
    files = ImageFiles(root)
    assert files.unnamed({str(root / "a.jpg")}) == ["b/c.PNG", "b/d.heic "]
    assert files.unnamed({str(root / "b/c.PNG")}) == ["a.jpg", "b/d.heic ", "link.jpg"]
