"""Missing-label settings by name: fol, pol_D, ppl_D, spl, as_is."""

import re
from dataclasses import dataclass
from fractions import Fraction

_PLAIN, _RATES = ("fol", "spl", "as_is"), ("pol", "ppl")
_HELP = "a setting is fol, spl, as_is, pol_D or ppl_D, D the fraction without its point: pol_02 is 0.2, pol_005 is 0.05"


@dataclass(frozen=True)
class Setting:
    """A rule for which labels of a training image are observed (paper, Sec. III-B).

    ==========  =============================================================================
    ``fol``     fully observed labels: all of them
    ``pol_D``   partially observed labels: a share of all labels, present or absent
    ``ppl_D``   partially observed positive labels: a share of the present ones, nothing else
    ``spl``     single positive label: one of the present ones, nothing else
    ``as_is``   the labels that the data set came with, which may be partial
    ==========  =============================================================================

    Attributes:
        kind: "fol", "pol", "ppl", "spl" or "as_is".
        rate: the fraction that D stands for, 0 < rate < 1, exact so that 0.6 of 5 is 3; None: the rule has none.

    ``Setting.parse`` and ``str`` are inverses.
    """

    kind: str
    rate: Fraction | None = None

    def __post_init__(self) -> None:
        if self.kind in _PLAIN:
            valid = self.rate is None
        else:
            valid = self.kind in _RATES and self.rate is not None and 0 < self.rate < 1 and _is_decimal(self.rate)
        if not valid:
            raise ValueError(f"no setting {self.kind!r} with rate {self.rate}: {_HELP}")

    @property
    def sampled(self) -> bool | None:
        """Whether the observed labels are a sample of all labels; None: unknown, for as_is."""
        return None if self.kind == "as_is" else self.kind in ("fol", "pol")

    @classmethod
    def parse(cls, text: str) -> "Setting":
        """The setting with this name.

        Raises:
            ValueError: no such setting; the message explains the names.
        """
        match = re.fullmatch(r"(fol|spl|as_is)|(pol|ppl)_(0[0-9]*[1-9]0*)", str(text))
        if not match:
            raise ValueError(f"setting: {text!r} is not allowed; {_HELP}")
        plain, kind, digits = match.groups()
        return cls(plain) if plain else cls(kind, Fraction(int(digits), 10 ** (len(digits) - 1)))

    def __str__(self) -> str:
        if self.rate is None:
            return self.kind
        places = 0
        while self.rate * 10**places % 1:
            places += 1
        return f"{self.kind}_{int(self.rate * 10**places):0{places + 1}d}"


def _is_decimal(rate: Fraction) -> bool:
    """Whether `rate` has finitely many decimal places, unlike 1/3: a setting is named after them."""
    return bool(10 ** rate.denominator.bit_length() % rate.denominator == 0)
