"""Pillow's bilinear resize, equal to the bit, in a third of its time where numba is installed.

Pillow applies a triangle filter along one axis, then along the other; each pass sums with weights of 22 bits and
rounds to 8. Which axis comes first depends on the shape and on Pillow's version. So for each shape, noise is resized
both ways and compared with Pillow's result: a shape that differs in one bit is left to Pillow.
"""

import functools
from types import ModuleType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

Pixels = npt.NDArray[np.uint8]

_SMALL = 1 << 15  # pixels; below, nothing is gained
_LARGE = 1 << 22  # pixels; above, copying the image out of Pillow costs what the faster passes save
_SHRINK = 1000  # times smaller; far below the ratio at which a weighted sum overflows


def resize(image: Image.Image, size: int, out: Pixels | None = None) -> Pixels:
    """Resize an RGB image by Pillow's bilinear filter, without cropping.

    Args:
        size: edge S of the result in pixels.
        out: uint8 [S, S, 3] to write to and return; None: a new array.

    Returns:
        uint8 [S, S, 3].
    """
    shape = _shape(*image.size, size)
    shape.count += 1
    # Comparing with Pillow costs a few resizes: too much for a shape that only one image has.
    if shape.count == 1 or not shape.fits or (vertical_first := _order(*image.size, size)) is None:
        pixels = np.asarray(image.resize((size, size), Image.Resampling.BILINEAR))
        if out is None:
            return pixels
        out[:] = pixels
        return out
    out = np.empty((size, size, 3), np.uint8) if out is None else out
    _resize(np.asarray(image), vertical_first, out)
    return out


def accelerated() -> bool:
    """Whether numba is installed; without it, Pillow resizes everything."""
    return _passes() is not None


class _Shape:
    """Counts the images of a shape, and says whether the shape can be resized faster than by Pillow."""

    def __init__(self, width: int, height: int, size: int) -> None:
        self.count = 0
        self.fits = max(width, height) <= _SHRINK * size and _SMALL <= max(width * height, size * size) <= _LARGE


_shape = functools.lru_cache(maxsize=1 << 13)(_Shape)


class _Weights(NamedTuple):
    """Each of m output rows sums `taps` input rows from `first` on, int32 [m], with `weights`, int32 [m, k]."""

    first: npt.NDArray[np.int32]
    taps: npt.NDArray[np.int32]
    weights: npt.NDArray[np.int32]


@functools.lru_cache(maxsize=1 << 10)
def _weights(n: int, m: int) -> _Weights:
    """Weights of a triangle filter from n pixels to m, by Pillow's float64 operations, in units of 2**-22."""
    scale = n / m
    reach = max(scale, 1.0)
    centre = (np.arange(m) + 0.5) * scale
    first = np.maximum((centre - reach + 0.5).astype(np.int32), 0)
    taps = np.minimum((centre + reach + 0.5).astype(np.int32), n) - first
    offset = np.arange(taps.max())
    distance = (offset + first[:, None] - centre[:, None] + 0.5) * (1.0 / reach)
    weights = np.where(offset < taps[:, None], np.maximum(1.0 - np.abs(distance), 0.0), 0.0)
    weights /= np.cumsum(weights, axis=1)[:, -1:]  # cumsum adds in Pillow's order, np.sum in another
    return _Weights(first, taps, (weights * (1 << 22) + 0.5).astype(np.int32))


@functools.lru_cache(maxsize=1 << 13)
def _order(width: int, height: int, size: int) -> bool | None:
    """Whether Pillow begins with the vertical pass; None: its result is another, or numba is not installed."""
    if _passes() is None:
        return None
    noise = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    expected = np.asarray(Image.fromarray(noise).resize((size, size), Image.Resampling.BILINEAR))
    ours = np.empty((2, size, size, 3), np.uint8)
    for vertical_first in (False, True):
        _resize(noise, vertical_first, ours[int(vertical_first)])
    equal = [np.array_equal(expected, picture) for picture in ours]
    one_pass = size in (width, height)
    # Where both orders give the same pixels, the noise cannot tell them apart.
    return equal[1] if equal[0] != equal[1] or (one_pass and all(equal)) else None


@functools.cache
def _passes() -> ModuleType | None:
    try:
        from mlml.images import resize_kernels
    except Exception:  # not installed, or not for this NumPy, or nowhere to keep the machine code
        return None
    return resize_kernels


def _resize(pixels: Pixels, vertical_first: bool, out: Pixels) -> None:
    passes = _passes()
    assert passes
    (height, width, _), size = pixels.shape, len(out)
    flat, result = pixels.reshape(height, 3 * width), out.reshape(size, 3 * size)
    if vertical_first:
        middle = np.empty((size, 3 * width), np.uint8)
        passes.vertical(flat, *_weights(height, size), middle)
        passes.horizontal(middle, *_weights(width, size), result)
    else:
        middle = np.empty((height, 3 * size), np.uint8)
        passes.horizontal(flat, *_weights(width, size), middle)
        passes.vertical(middle, *_weights(height, size), result)
