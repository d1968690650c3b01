"""The digits data set: the same on every machine, with correct labels, and no scan in both pools."""

import hashlib
import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from mlml import labels as lb
from mlml.core.params import parse_options
from mlml.datasets.readers import digits
from mlml.datasets.source import Source
from mlml.datasets.split import validation_split

NOWHERE = Path("nowhere")


@pytest.fixture(scope="module")
def source() -> Source:
    return digits.read(NOWHERE, NOWHERE)


def picture(source: Source, row: int) -> Image.Image:
    """The decoded image file, which is lossless."""
    return Image.open(io.BytesIO(source.read(row)))


def _bytes(source: Source, rows: list[int]) -> list[bytes]:
    return [picture(source, row).tobytes() for row in rows]


@pytest.fixture(scope="module")
def scans(source: Source) -> list[set[int]]:
    """The scans of each row."""
    keys = (name.split("-") for name in source.table.images)
    return [{digit.scan for digit in digits.layout(pool, int(i), 64)} for pool, i in keys]


def test_images_and_labels_are_the_pinned_ones(source: Source) -> None:
    pixels = b"".join(_bytes(source, [0, 1, 2, 1234, 2499, 2500, 3499]))
    assert hashlib.sha256(pixels).hexdigest() == "8b694e83b4e49d0176e4e66725c6a69c379505747ed9571fa601393952470e23"
    labels = source.table.labels.tobytes()
    assert hashlib.sha256(labels).hexdigest() == "da23830984f4cafcd6d1a2787bb1db1e88acfd221ab04693b06da4ad29f0bd40"


def test_an_image_does_not_depend_on_how_many_there_are(source: Source) -> None:
    few = digits.read(NOWHERE, NOWHERE, train_images=20, test_images=10)
    rows = [source.table.images.index(name) for name in few.table.images]
    assert rows == [*range(20), *range(2500, 2510)]
    assert np.array_equal(few.table.labels, source.table.labels[rows])
    assert _bytes(few, list(range(30))) == _bytes(source, rows)


def test_images_differ(source: Source) -> None:
    assert len(set(_bytes(source, [*range(100), *range(2500, 2600)]))) == 200


def test_threads_get_what_one_thread_gets(source: Source) -> None:
    rows = list(range(0, 3500, 25)) * 2
    with ThreadPoolExecutor(8) as pool:
        threaded = list(pool.map(lambda row: picture(source, row).tobytes(), rows))
    assert threaded == _bytes(source, rows)


def test_names_and_splits_follow_the_protocol(source: Source) -> None:
    table = source.table
    training, validation = validation_split(2500)
    assert table.classes == tuple("0123456789")
    assert table.images[0] == "train-00000" and table.images[-1] == "test-00999"
    assert np.array_equal(table.rows("train"), training) and len(training) == 2000
    assert np.array_equal(table.rows("validation"), validation) and len(validation) == 500
    assert np.array_equal(table.rows("test"), np.arange(2500, 3500))


def test_labels_are_the_digits_drawn(source: Source, scans: list[set[int]]) -> None:
    shown = load_digits().target
    assert np.array_equal(np.unique(source.table.labels), [lb.ABSENT, lb.PRESENT])
    for labels, drawn in zip(source.table.labels, scans, strict=True):
        assert np.flatnonzero(labels == lb.PRESENT).tolist() == sorted({int(shown[scan]) for scan in drawn})


def test_a_digit_is_painted_from_its_scan(source: Source) -> None:
    """Inside a digit's box, the image correlates with its scan."""
    values = load_digits().images
    likeness = []
    for row in range(300):
        pixels = np.asarray(picture(source, row).convert("L"), dtype=float)
        for digit in digits.layout("train", row, 64)[-1:]:
            box = pixels[digit.top : digit.top + digit.height, digit.left : digit.left + digit.width]
            # The scan has a margin of one cell, hence ten cells to a box.
            y, x = ((np.arange(size) + 0.5) * 10 // size for size in box.shape)
            enlarged = np.pad(values[digit.scan], 1)[y.astype(int)][:, x.astype(int)]
            likeness.append(np.corrcoef(box.ravel(), enlarged.ravel())[0, 1])
    assert len(likeness) > 250
    assert np.median(likeness) > 0.8


def test_classes_are_unequal_and_images_have_few(source: Source) -> None:
    present = source.table.labels == lb.PRESENT
    for rows in (slice(0, 2500), slice(2500, 3500)):
        assert 1.5 <= present[rows].sum(1).mean() <= 2
        assert 0.02 <= (present[rows].sum(1) == 0).mean() <= 0.08
        assert present[rows].sum(1).max() == 4
        frequency = present[rows].mean(0)
        assert 2.2 <= frequency.max() / frequency.min() <= 4


def test_no_scan_is_in_training_and_test_images(scans: list[set[int]]) -> None:
    _, _, pools = digits.scans()
    assert (len(pools["train"]), len(pools["test"])) == (1258, 539)
    assert np.array_equal(np.sort(np.concatenate(list(pools.values()))), np.arange(1797))
    train, test = set().union(*scans[:2500]), set().union(*scans[2500:])
    assert len(train) > 1000 and len(test) > 400
    assert not train & test
    assert train <= set(pools["train"]) and test <= set(pools["test"])


def test_clutter_is_from_the_own_pool(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image is unchanged when the scans of the other pool are wiped."""
    before = {row: picture(source, row).tobytes() for row in (*range(50), *range(2500, 2550))}
    images, names, pools = digits.scans()
    for other, rows in (("test", range(50)), ("train", range(2500, 2550))):
        wiped = images.copy()
        wiped[pools[other]] = 0
        monkeypatch.setattr(digits, "scans", lambda wiped=wiped: (wiped, names, pools))
        assert all(picture(source, row).tobytes() == before[row] for row in rows)
    # The check can fail: without its own scans an image changes.
    assert any(picture(source, row).tobytes() != before[row] for row in range(50))


@pytest.mark.parametrize("canvas", [32, 64, 200])
def test_digits_lie_on_the_canvas(canvas: int) -> None:
    source = digits.read(NOWHERE, NOWHERE, train_images=50, test_images=10, canvas=canvas)
    for row in range(50):
        assert picture(source, row).size == (canvas, canvas)
        for digit in digits.layout("train", row, canvas):
            assert digit.left >= 0 and digit.left + digit.width <= canvas
            assert digit.top >= 0 and digit.top + digit.height <= canvas


def test_options() -> None:
    assert parse_options(digits.read, {}, "d") == {"train_images": 2500, "test_images": 1000, "canvas": 64}
    with pytest.raises(ValueError, match=r"d\.canvas: 31 is not allowed"):
        parse_options(digits.read, {"canvas": 31}, "d")
