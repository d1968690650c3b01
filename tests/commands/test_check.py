"""A data set is looked over without training."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mlml import datasets
from mlml.commands.check import check
from mlml.datasets import report
from tests.commands.conftest import Ended
from tests.shared import DATA, needs_data

FILE = "archives: []\nimages: {reader: folder, image_size: 64}\n"


def mine(root: Path, count: int = 12) -> Path:
    """A folder with full labels and pictures of noise, each another."""
    (root / "images").mkdir(parents=True)
    random = np.random.RandomState(0)
    lines = ["image,split,cat,dog"]
    for i in range(count):
        Image.fromarray(random.randint(0, 256, (40, 50, 3), np.uint8)).save(root / f"images/{i:02}.png")
        lines.append(f"images/{i:02}.png,{('train', 'val', 'test')[i % 3]},{i // 3 % 2},{(i // 3 + 1) % 2}")
    (root / "labels.csv").write_text("\n".join(lines))
    (root / "dataset.yaml").write_text(FILE)
    return root


def test_a_good_data_set(tmp_path: Path, mlml: Callable[..., Ended]) -> None:
    status, out, err = mlml("check", mine(tmp_path / "mine"))
    assert (status, err.splitlines()[-1]) == (0, "check: 100% of 12 images")
    lines = out.split("\n")
    assert lines[0] == "12 images, 2 classes"
    assert lines[2].split() == ["train", "4", "4", "4", "0.0%", "0", "0"]
    assert "cat          2 present          2 absent" in lines
    assert lines[-2] == "nothing to note"


def test_what_is_suspicious_about_pictures(tmp_path: Path, mlml: Callable[..., Ended]) -> None:
    root = mine(tmp_path / "mine")
    picture = Image.open(root / "images/01.png")
    picture.resize((32, 20)).save(root / "images/00.png")
    picture.save(root / "images/02.png", save_all=True, append_images=[picture.rotate(90)])
    exif = Image.Exif()
    exif[0x0112] = 6
    picture.save(root / "images/03.png", exif=exif)
    copied = (root / "images/01.png").read_bytes()
    (root / "images/05.png").write_bytes(copied)
    (root / "images/09.png").write_bytes((root / "images/06.png").read_bytes())
    (root / "more.jpg").touch()
    remarks = [line for line in check(root, tmp_path) if line.startswith("note: ")]
    assert remarks == [
        f"note: 1 pictures in {root} are not in the labels, as 'more.jpg'",
        "note: 1 pictures are animated: the first frame counts",
        "note: 1 pictures have an EXIF orientation, which is followed",
        "note: 1 pictures are not half as large as the prepared ones (64 pixels)",
        "note: 1 pictures are in several splits under several names, as 'images/01.png' (validation) and "
        "'images/05.png' (test): a leak",
        "note: 1 pictures are there several times within a split",
    ]
    (root / "more.jpg").unlink()
    (root / "images/04.png").write_bytes(copied[:100])
    labels_only = mlml("check", root, "--labels-only", "--archives", tmp_path)
    assert (labels_only.status, labels_only.out.splitlines()[-1]) == (0, "nothing to note")


def test_a_note_does_not_take_over_the_terminal(tmp_path: Path, mlml: Callable[..., Ended]) -> None:
    root = mine(tmp_path / "mi\x1b[2Jne")
    (root / "more.jpg").touch()
    status, out, _ = mlml("check", root, "--labels-only")
    note = f"note: 1 pictures in {tmp_path}/mi\\x1b[2Jne are not in the labels, as 'more.jpg'"
    assert (status, out.splitlines()[-1]) == (0, note)


def test_faults_are_one_line_each_and_the_status(tmp_path: Path, mlml: Callable[..., Ended]) -> None:
    root = mine(tmp_path / "mine")
    (root / "images/04.png").write_bytes(b"")
    (root / "images/07.png").write_bytes(b"<html>")
    status, out, err = mlml("check", root)
    assert (status, out) == (1, "")
    lines = err.strip().split("\n")[-3:]
    assert lines[0] == "mlml check: 2 images cannot be read"
    assert lines[1].startswith(f"{root}/labels.csv, row 6: images/04.png: the file is empty (0 bytes)")
    assert lines[2].startswith(f"{root}/labels.csv, row 9: images/07.png: the file is an HTML page")

    (root / "images/04.png").unlink()
    os.mkfifo(root / "images/04.png")
    line = f"mlml check: {root}: files that cannot be used: 1\n{root}/images/04.png is a named pipe; remove it\n"
    assert mlml("check", root) == (1, "", line)


def test_labels_that_give_no_test_map_are_one_line_with_the_file(tmp_path: Path, mlml: Callable[..., Ended]) -> None:
    """One present label an image, all else blank: any scores would rank perfectly."""
    root = mine(tmp_path / "mine")
    (root / "labels.csv").write_text((root / "labels.csv").read_text().replace(",0", ","))
    status, out, err = mlml("check", root, "--labels-only")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"mlml check: {root}/labels.csv: over 4 test images no class has both a label known to be ")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, "dataset.yaml is missing"),
        ("images: [", "dataset.yaml is no YAML file: "),
        ("- a", "dataset.yaml: must be keys and values"),
        ("imagse: {}\narchives: []", "dataset.yaml: imagse: unknown key; it takes archives, images, training"),
        ("images: {reader: folder, image_size: 8}", "dataset.yaml: archives: missing"),
        ("", "dataset.yaml: images: missing"),
        ("archives: 5\nimages: {}", "dataset.yaml: archives: 5 is not allowed; must be a valid list"),
        ("archives: []", "dataset.yaml: images: missing"),
        ("archives: []\nimages:", "dataset.yaml: images.reader: missing"),
        (
            "archives: []\nimages: {reader: x, image_size: 8}",
            "dataset.yaml: images.reader: 'x' is not allowed; it must",
        ),
        (f"{FILE}training: {{weights: x.pth}}", "dataset.yaml: training.weights: x.pth is missing; bring the file"),
        ("archives: []\nimages: {reader: folder, image_size: 0}", "dataset.yaml: images.image_size: 0 is not allowed"),
        (
            "archives: []\nimages: {reader: folder, image_size: 8, options: {classes: [a, a]}}",
            "dataset.yaml: images.options.classes: ",
        ),
        (f"{FILE}training: {{lr: 0}}", "dataset.yaml: training.lr: 0 is not allowed; must be greater than 0"),
    ],
)
def test_a_wrong_file(tmp_path: Path, content: str | None, line: str) -> None:
    root = mine(tmp_path / "mine")
    (root / "dataset.yaml").unlink()
    if content is not None:
        (root / "dataset.yaml").write_text(content)
    with pytest.raises(ValueError) as error:
        check(root, tmp_path)
    assert f"{root}/{line}" in str(error.value)


@needs_data
def test_real_photographs() -> None:
    source = datasets.read("folder", DATA / "photos", Path("nowhere"))
    lines = report.summary(source.table)
    assert lines[1].split() == ["train", "2,500", "3,827", "41,173", "0.0%", "0", "0"]
    assert report.remarks(source.table) == []
