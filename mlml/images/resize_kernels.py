"""The two passes of `mlml.images.resizing`, compiled to machine code; importing this module needs numba."""

import numba
import numpy as np
import numpy.typing as npt

BITS = 22  # of a weight's fraction, as in Pillow
_STRIP = 32  # rows transposed at once: input and output fit the processor's cache

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int32]


def _vertical(source: Bytes, first: Integers, taps: Integers, weights: Integers, out: Bytes) -> None:
    """Row y of `out` is the rounded weighted sum of taps[y] rows of `source` from first[y] on.

    Args:
        source: uint8 [n, c].
        first, taps: int32 [m].
        weights: int32 [m, k], in units of 2**-BITS.
        out: uint8 [m, c], written to.
    """
    width = source.shape[1]
    total = np.empty(width, np.int32)
    for y in range(len(out)):
        total[:] = 1 << (BITS - 1)
        for tap in range(taps[y]):
            row, weight = source[first[y] + tap], weights[y, tap]
            for x in range(width):
                total[x] += np.int32(row[x]) * weight
        for x in range(width):
            out[y, x] = total[x] >> BITS


def _horizontal(source: Bytes, first: Integers, taps: Integers, weights: Integers, out: Bytes) -> None:
    """The same along the other axis, with three channels a pixel: uint8 [h, 3 n] to uint8 [h, 3 m].

    Strips of the image are transposed, so that `vertical` vectorises here, too.
    """
    height, width, size = len(source), source.shape[1] // 3, len(first)
    before, after = np.empty((width, 3 * _STRIP), np.uint8), np.empty((size, 3 * _STRIP), np.uint8)
    for top in range(0, height, _STRIP):
        rows = min(_STRIP, height - top)
        for y in range(rows):
            for x in range(width):
                for channel in range(3):
                    before[x, 3 * y + channel] = source[top + y, 3 * x + channel]
        vertical(before, first, taps, weights, after)
        for y in range(rows):
            for x in range(size):
                for channel in range(3):
                    out[top + y, 3 * x + channel] = after[x, 3 * y + channel]


_READ = numba.types.Array(numba.uint8, 2, "C", readonly=True)
_SIGNATURE = numba.void(_READ, numba.int32[::1], numba.int32[::1], numba.int32[:, ::1], numba.uint8[:, ::1])
_compiled = numba.njit(_SIGNATURE, nogil=True, cache=True)
vertical = _compiled(_vertical)
horizontal = _compiled(_horizontal)
