"""Labels that are listed one by one: which class has which label in which image."""

from array import array
from collections.abc import Iterator, Sequence

import numpy as np

from mlml import labels as lb
from mlml.core.errors import quoted


class ListedLabels:
    """The labels added so far.

    Args:
        classes: the names of all classes; None: those that are added.

    Attributes:
        first: each class that was not given, with the place, "row 7", where it came up first.
        none: the images without any class, each with the row of the file that says so; callers add to it.
    """

    def __init__(self, classes: Sequence[str] | None) -> None:
        self._fixed = classes
        self._numbers = {name: number for number, name in enumerate(classes or [])}
        self.first: dict[str, str] = {}
        self.none: dict[int, int] = {}
        # Images, classes, rows of the file and labels; arrays, for there may be millions.
        self._added = (array("q"), array("q"), array("q"), array("b"))

    def add(self, image: int, row: int, label: int, names: list[str]) -> list[str]:
        """Add the label of some classes in an image, which a row of the file gives; returns the faults."""
        faults = []
        for name in names:
            if name not in self._numbers and self._fixed is not None:
                faults.append(f"{quoted(name)} is not in images.options.classes")
                continue
            if name not in self._numbers:
                self._numbers[name] = len(self._numbers)
                self.first[name] = f"row {row}"
            for values, value in zip(self._added, (image, self._numbers[name], row, label), strict=True):
                values.append(value)
        return faults

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """(place, message) for each label that is both present and absent."""
        names = list(self._numbers)
        images, classes, rows, labels = map(np.array, self._added)
        keys, present, absent = images * len(names) + classes, labels == lb.PRESENT, labels == lb.ABSENT
        both, i, j = np.intersect1d(keys[present], keys[absent], return_indices=True)
        for key, one, other in zip(both, rows[present][i], rows[absent][j], strict=True):
            name = quoted(names[key % len(names)])
            if one == other:
                yield f"row {one}", f"{name} is in both lists, present and absent"
            else:
                yield f"row {max(one, other)}", f"{name} is present in row {one}, but absent in row {other}"
        for at in np.flatnonzero(present & np.isin(images, list(self.none))):
            one, other, name = rows[at], self.none[images[at]], quoted(names[classes[at]])
            yield f"row {max(one, other)}", f"{name} is present in row {one}, but no class is in row {other}"

    def matrix(self, n: int, unlisted: int) -> tuple[tuple[str, ...], lb.Labels]:
        """The classes, sorted unless they were given, and the labels of n images, int8 [n, L]."""
        names = tuple(self._fixed or sorted(self._numbers))
        place = {name: i for i, name in enumerate(names)}
        column = np.array([place[name] for name in self._numbers], np.int64)
        images, classes, _, labels = map(np.array, self._added)
        matrix = np.full((n, len(names)), unlisted, np.int8)
        for value in (lb.UNKNOWN, lb.ABSENT, lb.PRESENT):  # what is known replaces what is not
            if value == lb.ABSENT:
                matrix[list(self.none)] = lb.ABSENT
            these = labels == value
            matrix[images[these], column[classes[these]]] = value
        return names, matrix
