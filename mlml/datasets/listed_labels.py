"""Labels that are listed one by one: which class has which state in which image."""

from array import array
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from mlml import labels as lb
from mlml.datasets.text_file import quoted
from mlml.datasets.user_folder import STATES, State

AnyState = Literal["present", "absent", "unknown"]


class ListedLabels:
    """The labels added so far.

    Args:
        classes: the names of all classes; None: those that are added.

    Attributes:
        first: each class that was not given, with the place, "row 7", where it came up first.
    """

    def __init__(self, classes: Sequence[str] | None) -> None:
        self._fixed = classes
        self._numbers = {name: number for number, name in enumerate(classes or [])}
        self.first: dict[str, str] = {}
        # Images, classes and rows of the file; arrays, for there may be millions.
        self._cells = {state: (array("q"), array("q"), array("q")) for state in STATES}
        self._none = (array("q"), array("q"))  # images without any class, and the rows that say so

    def add(self, image: int, row: int, state: AnyState, names: list[str]) -> list[str]:
        """Add the state of some classes in an image, which a row of the file gives; returns the faults."""
        faults = []
        images, numbers, rows = self._cells[state]
        for name in names:
            number = self._numbers.get(name)
            if number is None and self._fixed is not None:
                faults.append(f"{quoted(name)} is not in images.options.classes")
                continue
            if number is None:
                number = self._numbers[name] = len(self._numbers)
                self.first[name] = f"row {row}"
            images.append(image)
            numbers.append(number)
            rows.append(row)
        return faults

    def add_none(self, image: int, row: int) -> None:
        """Add that an image has none of the classes."""
        self._none[0].append(image)
        self._none[1].append(row)

    @property
    def said_none(self) -> bool:
        """Whether `add_none` was called."""
        return bool(self._none[0])

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """(place, message) for each label that is both present and absent."""
        names = list(self._numbers)
        present, absent = (self._keys(state) for state in ("present", "absent"))
        both, *at = np.intersect1d(present, absent, return_indices=True)
        for key, i, j in zip(both.tolist(), *at, strict=True):
            one, other = self._cells["present"][2][i], self._cells["absent"][2][j]
            name = quoted(names[key % len(names)])
            if one == other:
                yield f"row {one}", f"{name} is in both lists, present and absent"
            else:
                yield f"row {max(one, other)}", f"{name} is present in row {one}, but absent in row {other}"
        _, *at = np.intersect1d(_array(self._cells["present"][0]), _array(self._none[0]), return_indices=True)
        for i, j in zip(*at, strict=True):
            one, other = self._cells["present"][2][i], self._none[1][j]
            name = quoted(names[self._cells["present"][1][i]])
            yield f"row {max(one, other)}", f"{name} is present in row {one}, but no class is in row {other}"

    def matrix(self, n: int, unlisted: State) -> tuple[tuple[str, ...], lb.Labels]:
        """The classes, sorted unless they were given, and the labels of n images, int8 [n, L]."""
        classes = tuple(self._fixed or sorted(self._numbers))
        place = {name: i for i, name in enumerate(classes)}
        column = np.array([place[name] for name in self._numbers], np.int64)
        labels = np.full((n, len(classes)), STATES[unlisted], np.int8)
        for state in ("unknown", "none", "absent", "present"):  # what is known replaces what is not
            if state == "none":
                labels[_array(self._none[0])] = lb.ABSENT
            else:
                images, numbers, _ = self._cells[state]
                labels[_array(images), column[_array(numbers)]] = STATES[state]
        return classes, labels

    def _keys(self, state: str) -> npt.NDArray[np.int64]:
        images, numbers, _ = self._cells[state]
        return _array(images) * len(self._numbers) + _array(numbers)


def _array(values: "array[int]") -> npt.NDArray[np.int64]:
    return np.array(values, np.int64)
