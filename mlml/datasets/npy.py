"""Arrays that somebody else saved: .npy files, without the Python objects that may run code."""

from pathlib import Path

import numpy as np

_KINDS = {"text": "U", "numbers": "biuf"}


def load(path: Path, what: str, dimensions: int) -> np.ndarray:
    """The array in a .npy file.

    Args:
        what: "text" or "numbers" (bool, integers or floats).
        dimensions: how many it must have.

    Raises:
        ValueError: no such file, another kind of file, or an array of something else.
    """
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, SyntaxError) as error:
        if "allow_pickle" in str(error) and path.read_bytes()[:6] == b"\x93NUMPY":
            remedy = "np.save(path, np.array(np.load(path, allow_pickle=True).tolist()))"
            raise ValueError(
                f"{path} holds Python objects, which may run code and are not read; "
                f"if you trust the file, save it anew as {what}: {remedy}"
            ) from None
        raise ValueError(f"{path} is no .npy file that can be read; bring it again") from None
    found = f"{array.dtype} {list(array.shape)}" if isinstance(array, np.ndarray) else "several arrays"
    if not isinstance(array, np.ndarray) or array.dtype.kind not in _KINDS[what] or array.ndim != dimensions:
        raise ValueError(f"{path} holds {found}, not {what} in {dimensions} dimension{'s' if dimensions > 1 else ''}")
    return array
