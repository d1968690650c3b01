"""From the bytes of an image file to pixels: the one place where pictures are decoded.

Pillow decodes and resizes, as the methods' published code does, so that pixels are equal to theirs to the bit.
"""

import functools
import io
import re
import warnings
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError, _imaging

from mlml.core.threads import cores
from mlml.images.resizing import resize

Rows = npt.NDArray[np.uint8]

MAX_PIXELS = 89_478_485  # Pillow's own limit, beyond which a small file may fill the memory
# Pillow knows more, some of which start other programs; photographs come in these.
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
    """The picture in an image file, whole and in RGB; the first one of an animation.

    Grey, palette and CMYK pictures are converted by Pillow; transparency is dropped. Pillow's warnings, of things that
    it puts up with, are switched off in the whole process.

    Args:
        data: the file's content.
        upright: whether the picture is turned as its EXIF orientation says; EXIF data that cannot be read says nothing.
            Cameras and phones set it, and people see turned pictures. Pillow alone ignores it, but for TIFF, and so do
            the published numbers on the public sets.

    Raises:
        ValueError: there is no picture in it, or not all of one, or one that is too large or has more than 8 bits
            a channel; one line, which says so, and the remedy.
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
    """The picture resized to size x size by Pillow's bilinear filter, not cropped: uint8 [size, size, 3].

    Args:
        out: where to write it; it is what is returned then.

    Raises:
        ValueError: as `decode`.
    """
    return resize(decode(data, upright), size, out)


class Traits(NamedTuple):
    """What a picture's pixels don't say: its size in pixels, and whether it is animated or has an EXIF orientation."""

    width: int
    height: int
    animated: bool
    turned: bool


def traits(data: bytes) -> Traits:
    """The traits of a picture that `decode` takes."""
    with Image.open(io.BytesIO(data), formats=_formats()) as image:
        turned = _orientation(image) in _TURNS
        try:
            animated = int(getattr(image, "n_frames", 1)) > 1
        except Exception:  # the first frame is whole, others are not
            animated = True
        return Traits(image.width, image.height, animated, turned)


class _Refused(Exception):
    """A picture that Pillow would decode."""


_TOO_LARGE = f"it has more than {MAX_PIXELS:,} pixels (a decompression bomb?); make it smaller"


def _check(image: Image.Image) -> None:
    if image.width * image.height > MAX_PIXELS:
        raise _Refused(_TOO_LARGE)
    if image.mode.startswith(("I", "F")):
        raise _Refused(
            f"more than 8 bits a pixel (Pillow's mode {image.mode}), which would be cut off; save it with 8 bits"
        )


def _guess(data: bytes) -> str:
    """What a file is that is no image."""
    if re.match(rb"\s*(<!--.*?-->\s*)*<(!doctype html|html|head|body)\b", data[:2048], re.IGNORECASE | re.DOTALL):
        return "an HTML page"
    if data.startswith(b"version https://git-lfs"):
        return "a pointer of Git LFS"
    return f"no image of a known format ({', '.join(_formats())})"


def _orientation(image: Image.Image) -> int:
    # Asked after loading: Pillow turns a TIFF itself then, and forgets its orientation.
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # as many kinds as above
        return 1


@functools.cache
def _formats() -> tuple[str, ...]:
    """Those of `FORMATS` that this Pillow knows; and what is to be set once."""
    Image.init()
    if not _imaging.get_blocks_max():  # the user's PILLOW_BLOCKS_MAX counts
        # The memory of one picture is kept for the next: asking the system for it anew takes a tenth of the time.
        _imaging.set_blocks_max(4 * cores())
    return tuple(name for name in FORMATS if name in Image.OPEN)


def _hush() -> None:
    # warnings.catch_warnings is not for threads, and what a caller does with it may undo a filter set at import.
    if _QUIET not in warnings.filters:
        warnings.filterwarnings("ignore", module=_QUIET[3].pattern)
