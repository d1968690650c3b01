"""The published split into training and validation images."""

import numpy as np

VALIDATION_SHARE = 0.2
PROTOCOL_SEED = 1200  # Cole et al. 2021; fixed by the protocol, so not a parameter


def validation_split(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Split `n` training rows, sorted by image id, into training and validation rows.

    The last round(0.2 n) of ``numpy.random.RandomState(1200).permutation(n)`` are the validation rows (Cole
    et al., "Multi-Label Learning from Single Positive Labels", CVPR 2021). VOC 2012: 5717 -> 4574 + 1143.

    Returns:
        (training rows, validation rows): int64, each ascending.
    """
    order = np.random.RandomState(PROTOCOL_SEED).permutation(n)
    first = n - round(VALIDATION_SHARE * n)
    return np.sort(order[:first]), np.sort(order[first:])
