"""Names of files: what is the same in them, what is an image's, and what cannot be printed or listed."""

import os
import unicodedata

# fmt: off
SUFFIXES = frozenset((
    ".jpg", ".jpeg", ".jfif", ".mpo", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm",
    ".avif", ".jp2", ".j2k", ".heic", ".heif",
))
# fmt: on


def comparable(name: str) -> str:
    """What two names have in common that differ in Unicode form, blanks around them or case of the suffix only."""
    text = name if is_utf8(name) else os.fsencode(name).decode("latin-1")
    stem, suffix = os.path.splitext(unicodedata.normalize("NFC", text).strip())
    return stem + (suffix.lower() if suffix.lower() in SUFFIXES else suffix)


def is_picture(name: str) -> bool:
    """Whether a file is an image by its name, and not hidden."""
    return not name.startswith(".") and os.path.splitext(comparable(name))[1] in SUFFIXES


def is_utf8(name: str) -> bool:
    """Whether a name from the disk is text in UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:  # Python reads such a byte as half a surrogate pair
        return False
    return True


def shown(name: str) -> str:
    """A name for a message: escaped if it has characters that do not print."""
    return name if name.isprintable() else repr(name)
