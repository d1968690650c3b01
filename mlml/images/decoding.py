"""Decodes image files: the only place that turns their bytes into pixels.

Pillow decodes, as in the methods' published code, so pixels equal theirs to the bit.
"""

import functools
import io
import re
import warnings
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from mlml.images.resizing import resize

Rows = npt.NDArray[np.uint8]

MAX_PIXELS = 89_478_485  # Pillow's own limit, beyond which a small file may fill the memory
# The formats of photographs. Pillow reads more, some by starting other programs.
FORMATS = ("JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF", "JPEG2000")

_ORIENTATION = 0x0112  # EXIF
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_QUIET = ("ignore", None, Warning, re.compile(r"PIL\b"), 0)


def decode(data: bytes, upright: bool = False) -> Image.Image:
    """Decode an image file to RGB; of an animation, its first frame.

    Pillow converts grey, palette and CMYK images; transparency is dropped. Pillow's warnings about tolerated defects
    are switched off in the whole process.

    Args:
        data: the file's content.
        upright: whether to apply the EXIF orientation, which cameras and phones set; unreadable EXIF data is ignored.
            Pillow itself applies it to TIFF only, and so do the published numbers on the public data sets.

    Raises:
        ValueError: the file holds no complete image, or one that is too large or has more than 8 bits a channel; one
            line with the remedy.
    """
    if not data:
        raise ValueError("the file is empty (0 bytes); bring it again")
    _hush()
    try:
        image = Image.open(io.BytesIO(data), formats=_formats())
        _check(image)
        image.load()
        rgb = image if image.mode == "RGB" else image.convert("RGB")
    except _Refused as error:
        raise ValueError(str(error)) from None
    except Image.DecompressionBombError:
        raise ValueError(_TOO_LARGE) from None
    except UnidentifiedImageError:
        raise ValueError(f"the file is {_guess(data)}; bring the picture itself") from None
    except Exception as error:  # Pillow's decoders raise nearly everything on a damaged file
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"damaged, cut short or of a kind that Pillow cannot read ({reason}); bring it again"
        ) from None
    turn = _TURNS.get(_orientation(image)) if upright else None
    return rgb if turn is None else rgb.transpose(turn)


def to_row(data: bytes, size: int, upright: bool = False, out: Rows | None = None) -> Rows:
    """Decode an image file and resize it to uint8 [size, size, 3] by Pillow's bilinear filter, without cropping.

    Args:
        out: array to write to and return; None: a new one.

    Raises:
        ValueError: as `decode`.
    """
    return resize(decode(data, upright), size, out)


class Traits(NamedTuple):
    """Properties of an image file: size in pixels, whether it is animated, whether it has an EXIF orientation."""

    width: int
    height: int
    animated: bool
    turned: bool


def traits(data: bytes) -> Traits:
    """The traits of an image file that `decode` accepts."""
    with Image.open(io.BytesIO(data), formats=_formats()) as image:
        turned = _orientation(image) in _TURNS
        try:
            animated = int(getattr(image, "n_frames", 1)) > 1
        except Exception:  # a later frame is damaged
            animated = True
        return Traits(image.width, image.height, animated, turned)


class _Refused(Exception):
    """An image that Pillow would decode, but that is refused."""


_TOO_LARGE = f"it has more than {MAX_PIXELS:,} pixels (a decompression bomb?); make it smaller"


def _check(image: Image.Image) -> None:
    if image.width * image.height > MAX_PIXELS:
        raise _Refused(_TOO_LARGE)
    if image.mode.startswith(("I", "F")):
        raise _Refused(
            f"more than 8 bits a pixel (Pillow's mode {image.mode}), which would be cut off; save it with 8 bits"
        )


def _guess(data: bytes) -> str:
    """A name for the content of a file that is not an image."""
    if re.match(rb"\s*(<!--.*?-->\s*)*<(!doctype html|html|head|body)\b", data[:2048], re.IGNORECASE | re.DOTALL):
        return "an HTML page"
    if data.startswith(b"version https://git-lfs"):
        return "a pointer of Git LFS"
    return f"no image of a known format ({', '.join(_formats())})"


def _orientation(image: Image.Image) -> int:
    # Read after loading: Pillow has then applied and removed a TIFF's orientation.
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # damaged EXIF data raises nearly everything, too
        return 1


@functools.cache
def _formats() -> tuple[str, ...]:
    """The `FORMATS` that the installed Pillow can read."""
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def _hush() -> None:
    # Not warnings.catch_warnings, which is not thread-safe; a caller that uses it may undo a filter set at import.
    if _QUIET not in warnings.filters:
        warnings.filterwarnings("ignore", module=_QUIET[3].pattern)
