"""The faster resize equals Pillow's to the bit, or Pillow resizes."""

from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from mlml.images import resizing
from mlml.images.resizing import resize
from tests.images.shared import by_pillow

RANDOM = np.random.RandomState(0)
needs_numba = pytest.mark.skipif(not resizing.accelerated(), reason="numba is not installed: Pillow does it all")


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    resizing._shape.cache_clear()
    resizing._order.cache_clear()
    yield
    resizing._shape.cache_clear()
    resizing._order.cache_clear()


def pillow(pixels: np.ndarray, size: int) -> np.ndarray:
    return by_pillow(Image.fromarray(pixels), size)


def noise(height: int, width: int) -> np.ndarray:
    return RANDOM.randint(0, 256, (height, width, 3)).astype(np.uint8)


def extremes(height: int, width: int) -> np.ndarray:
    """Black and white only: the extreme values of weighted sums."""
    return (RANDOM.randint(0, 2, (height, width, 3)) * 255).astype(np.uint8)


def one_pass(pixels: np.ndarray, size: int) -> np.ndarray:
    """One pass by numba, for an image with one edge of the final size."""
    out = np.empty((size, size, 3), np.uint8)
    resizing._resize(pixels, False, out)
    return out


@needs_numba
@pytest.mark.parametrize("size", [8, 31])
def test_every_width_and_height(size: int) -> None:
    """Each edge from one pixel to forty times the size."""
    for n in range(1, 40 * size, 1 + size // 16):
        for picture in (noise(size, n), extremes(size, n), np.full((size, n, 3), 255, np.uint8)):
            for pixels in (picture, np.ascontiguousarray(picture.swapaxes(0, 1))):
                assert np.array_equal(one_pass(pixels, size), pillow(pixels, size)), pixels.shape


@needs_numba
@pytest.mark.parametrize("size", [112, 224, 448])
def test_usual_sizes(size: int) -> None:
    for n in (1, 2, size - 1, size, size + 1, 333, 375, 427, 500, 640, 1024, 4000):
        for pixels in (noise(size, n), extremes(n, size)):
            assert np.array_equal(one_pass(pixels, size), pillow(pixels, size)), pixels.shape


@given(st.integers(1, 900), st.integers(1, 900), st.sampled_from([8, 33, 112, 224, 300]), st.booleans())
@example(500, 375, 224, False)
@example(375, 500, 224, True)
@example(224, 224, 224, False)
@example(224, 500, 224, False)
def test_all_shapes_are_pillows(width: int, height: int, size: int, harsh: bool) -> None:
    pixels = extremes(height, width) if harsh else noise(height, width)
    image, expected = Image.fromarray(pixels), pillow(pixels, size)
    out = np.full((3, size, size, 3), 77, np.uint8)
    for _ in range(2):  # the second time is the faster one
        assert np.array_equal(resize(image, size), expected)
        assert resize(image, size, out[1]) is not None
        assert np.array_equal(out[1], expected)
    assert (out[[0, 2]] == 77).all()


@needs_numba
def test_photographs_take_the_faster_way() -> None:
    assert resizing._order(500, 375, 448) is False
    for width, height in ((375, 500), (500, 500), (640, 480), (320, 240), (448, 300), (300, 448), (1024, 768)):
        assert resizing._order(width, height, 448) is not None


@needs_numba
def test_only_the_first_picture_of_a_shape_is_left_to_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    images = [Image.fromarray(noise(300, 200)) for _ in range(4)]
    expected = [by_pillow(image, 224) for image in images]
    real, asked = Image.Image.resize, []

    def counted(self: Image.Image, *args: object) -> Image.Image:
        asked.append(self)
        return real(self, *args)

    monkeypatch.setattr(Image.Image, "resize", counted)
    counts = []
    for image, pixels in zip(images, expected, strict=True):
        assert np.array_equal(resize(image, 224), pixels)
        counts.append(len(asked))
    assert counts == [1, 2, 2, 2]  # the picture itself; noise of its shape; no more
    assert asked[0] is images[0] and asked[1] not in images


@needs_numba
def test_a_pillow_that_differs_by_one_bit_does_the_work_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Image.Image.resize

    def other(self: Image.Image, *args: object) -> Image.Image:
        pixels = np.array(real(self, *args))
        pixels[100, 100, 1] ^= 1
        return Image.fromarray(pixels)

    pixels = noise(300, 200)
    plain = pillow(pixels, 224)
    monkeypatch.setattr(Image.Image, "resize", other)
    assert resizing._order(200, 300, 224) is None
    for _ in range(3):
        ours = resize(Image.fromarray(pixels), 224)
        assert np.argwhere(ours != plain).tolist() == [[100, 100, 1]]


@needs_numba
def test_noise_that_cannot_tell_the_two_orders_apart_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    flat = SimpleNamespace(integers=lambda low, high, shape, dtype: np.full(shape, 9, dtype))
    monkeypatch.setattr(np.random, "default_rng", lambda seed: flat)
    assert resizing._order(300, 200, 224) is None
    assert resizing._order(224, 300, 224) is not None  # one pass: there is no order


@pytest.mark.parametrize("shape", [(100, 100, 64), (3000, 2000, 448), (1, 70_000, 8)])
def test_small_large_and_extreme_pictures_are_left_to_pillow(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int, int]
) -> None:
    monkeypatch.setattr(resizing, "_resize", None)
    width, height, size = shape
    pixels = noise(height, width)
    for _ in range(3):
        assert np.array_equal(resize(Image.fromarray(pixels), size), pillow(pixels, size))


def test_without_numba_all_is_pillows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resizing, "_passes", lambda: None)
    assert not resizing.accelerated()
    pixels = noise(300, 200)
    for _ in range(3):
        assert np.array_equal(resize(Image.fromarray(pixels), 224), pillow(pixels, 224))
