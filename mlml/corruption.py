"""Discards labels: from full labels to the observed labels of a setting."""

from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from mlml import labels as lb
from mlml.core.params import Section
from mlml.settings import Setting


class CorruptParams(Section):
    """Section ``corrupt`` of params.yaml.

    Attributes:
        seed: which draw of the observed labels.
    """

    seed: Annotated[int, Field(ge=0)] = 0


def corrupt(labels: lb.Labels, setting: Setting, seed: int) -> lb.Labels:
    """Draw the observed labels of `setting`.

    Of an image with L labels, k of them present, these stay observed, drawn uniformly without replacement:

    - fol: all;
    - pol: exactly round(rate * L), whatever their value;
    - ppl: min(k, floor(rate * k) + 1) of the present ones;
    - spl: min(k, 1) of the present ones;
    - as_is: those that were observed before; the labels may be partial.

    The counts reproduce the totals of the paper's Table II. The draw depends on the labels' shape and the
    seed alone and is the same on every machine; with one seed, the labels observed at a lower rate are
    observed at a higher one too.

    Args:
        labels: int8 [n, L] of PRESENT, ABSENT; for as_is of UNKNOWN, too.
        seed: not negative.

    Returns:
        int8 [n, L] of PRESENT, ABSENT, UNKNOWN; observed labels keep their value. `labels` itself if nothing is
        discarded.

    Raises:
        ValueError: `labels` is no complete label matrix.
    """
    if setting.kind == "as_is":
        return lb.check(labels)
    lb.check_complete(labels)
    if setting.kind == "fol":
        return labels
    # The raw stream of a bit generator never changes with NumPy's version; its distributions may.
    stream = np.random.PCG64(seed)
    observed = np.empty_like(labels)
    done = 0
    for chunk in lb.chunks(labels):  # 32 MiB of random keys each, however large the table
        keep = chunk == lb.PRESENT if setting.kind in ("ppl", "spl") else np.ones(chunk.shape, bool)
        mask = _draw(keep, _counts(keep.sum(1), setting), stream)
        observed[done : done + len(chunk)] = np.where(mask, chunk, lb.UNKNOWN)
        done += len(chunk)
    return observed


def _counts(candidates: npt.NDArray[np.int64], setting: Setting) -> npt.NDArray[np.int64]:
    """The number of each image's candidates that stay observed, int64 [n]."""
    if setting.rate is None:
        return np.minimum(candidates, 1)
    # Exact arithmetic on the few distinct counts: in binary fractions 0.6 * 5 is below 3.
    table = np.zeros(int(candidates.max(initial=0)) + 1, np.int64)
    for k in range(1, len(table)):
        share = setting.rate * k
        table[k] = round(share) if setting.kind == "pol" else min(k, share // 1 + 1)
    return table[candidates]


def _draw(
    candidates: npt.NDArray[np.bool_], counts: npt.NDArray[np.int64], stream: np.random.PCG64
) -> npt.NDArray[np.bool_]:
    """Draw counts[row] candidates of each row, all sets of that size equally likely; bool [n, L]."""
    n, width = candidates.shape
    # The column number in the low bits makes the keys of a row distinct.
    low = np.uint64((1 << max(1, (width - 1).bit_length())) - 1)
    keys = stream.random_raw(n * width).reshape(n, width) & ~low | np.arange(width, dtype=np.uint64)
    last = np.iinfo(np.uint64).max
    ranked = np.sort(np.where(candidates, keys, last), axis=1)
    bound = np.take_along_axis(ranked, np.maximum(counts - 1, 0)[:, None], axis=1)
    mask: npt.NDArray[np.bool_] = candidates & (keys <= bound) & (counts > 0)[:, None]
    return mask


def check_observed(observed: lb.Labels, setting: Setting) -> lb.Labels:
    """Return `observed` if it holds a label.

    Raises:
        ValueError: `setting` left no label, as a low rate of few classes does.
    """
    if not observed.any():
        raise ValueError(f"setting: {setting} observes none of the {observed.shape[1]} labels of any image")
    return observed
