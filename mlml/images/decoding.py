"""Decodes image files: the only place that turns their bytes into pixels.

Pillow decodes, as in the methods' published code, so pixels equal theirs to the bit.
"""

import functools
import io
import re
import warnings
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from mlml.images import damage
from mlml.images.resizing import resize

Rows = npt.NDArray[np.uint8]

MAX_PIXELS = 89_478_485  # Pillow's own limit, beyond which a small file may fill the memory
# The formats of photographs. Pillow reads more, some by starting other programs.
FORMATS = ("JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF", "JPEG2000")

_ORIENTATION, _BITS_PER_SAMPLE = 0x0112, 0x0102  # tags of EXIF and TIFF
_HEIC = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
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


def decode(data: bytes, upright: bool = False, strict: bool = False) -> Image.Image:
    """Decode an image file to RGB; of an animation, its first frame.

    Pillow converts grey, palette and CMYK images; transparency is dropped. Pillow's warnings about tolerated defects
    are switched off in the whole process.

    Args:
        data: the file's content.
        upright: whether to apply the EXIF orientation, which cameras and phones set; unreadable EXIF data is ignored.
            Pillow itself applies it to TIFF only, and so do the published numbers on the public data sets.
        strict: whether to refuse a picture that Pillow decodes, but whose file lacks a part of it; see
            `mlml.images.damage`.

    Raises:
        ValueError: the file holds no complete image, or one that is too large or has more than 8 bits a channel; one
            line with the remedy.
    """
    if not data:
        raise ValueError("the file is empty (0 bytes); bring it again")
    _hush()
    try:
        image = _open(data)
        _check(image, data)
        jpeg = damage.Jpeg(image, data) if strict and image.format in ("JPEG", "MPO") else None
        image.load()
        if jpeg and jpeg.is_damaged(_open):
            raise _Refused(_DAMAGED)
        if strict and image.format in ("PNG", "TIFF") and damage.unwritten(image, data, _open):
            raise _Refused(_DAMAGED)
        rgb = image if image.mode == "RGB" else image.convert("RGB")
    except _Refused as error:
        raise ValueError(str(error)) from None
    except Image.DecompressionBombError:
        raise ValueError(_TOO_LARGE) from None
    except MemoryError:
        raise ValueError("it does not fit into the memory; make it smaller") from None
    except UnidentifiedImageError:
        raise ValueError(f"the file is {_guess(data)}") from None
    except Exception as error:  # Pillow's decoders raise nearly everything on a damaged file
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"damaged, cut short or of a kind that Pillow cannot read ({reason}); bring it again"
        ) from None
    turn = _TURNS.get(_orientation(image)) if upright else None
    return rgb if turn is None else rgb.transpose(turn)


def to_row(data: bytes, size: int, upright: bool = False, out: Rows | None = None, strict: bool = False) -> Rows:
    """Decode an image file and resize it to uint8 [size, size, 3] by Pillow's bilinear filter, without cropping.

    Args:
        out: array to write to and return; None: a new one.
        upright, strict: as in `decode`.

    Raises:
        ValueError: as `decode`.
    """
    return resize(decode(data, upright, strict), size, out)


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
            animated = bool(getattr(image, "is_animated", False))
        except Exception:  # a later frame is damaged
            animated = True
        return Traits(image.width, image.height, animated, turned)


class _Refused(Exception):
    """An image that Pillow would decode, but that is refused."""


_TOO_LARGE = f"it has more than {MAX_PIXELS:,} pixels (a decompression bomb?); make it smaller"

_TOO_DEEP = "it has more than 8 bits a channel, of which 8 would be kept; save it with 8 bits"
_DAMAGED = "damaged: the file does not hold all of the picture, or more than it; bring it again"


def _check(image: Any, data: bytes) -> None:
    if image.width * image.height > MAX_PIXELS:
        raise _Refused(_TOO_LARGE)
    if image.mode.startswith(("I", "F")) or _bits(image, data) > 8:
        raise _Refused(_TOO_DEEP)


def _bits(image: Any, data: bytes) -> int:
    """The most bits of a channel; of formats that hold 8 at most, 8."""
    form = image.format
    if form == "PNG":
        return 16 if ";16" in str(image.tile[0][3]) else 8
    if form == "PPM":  # the largest value follows the mode
        return int(next((value for value in image.tile[0][3] if isinstance(value, int)), 255)).bit_length()
    if form == "TIFF":
        return int(max(image.tag_v2.get(_BITS_PER_SAMPLE, (8,))))
    if form == "JPEG2000":
        start = data.index(b"\xff\x4f\xff\x51") + 40  # its number of channels; three bytes for each follow
        return 1 + max(depth & 0x7F for depth in data[start + 2 : start + 2 + 3 * data[start + 1] : 3])
    if form == "AVIF":
        return 10 if data[data.index(b"av1C") + 6] & 0x40 else 8
    return 8


def _open(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data), formats=_formats())


_ITSELF = "bring the picture itself"


def _guess(data: bytes) -> str:
    """A name for the content of a file that is not an image, and what to do."""
    if re.match(rb"\s*(<!--.*?-->\s*)*<(!doctype html|html|head|body)\b", data[:2048], re.IGNORECASE | re.DOTALL):
        return f"an HTML page; {_ITSELF}"
    if data.startswith(b"version https://git-lfs"):
        return f"a pointer of Git LFS; {_ITSELF}"
    if data[4:8] == b"ftyp" and data[8:12] in _HEIC:
        return "a HEIC picture; convert it to JPEG"
    return f"no image of a known format ({', '.join(_formats())}); {_ITSELF}"


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
