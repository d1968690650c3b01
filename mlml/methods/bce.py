"""Binary cross entropy on the observed labels; unknown labels are left out (paper, eq. `bce` and `ob`)."""

from mlml.losses import observed_bce
from mlml.methods.base import stateless

method = stateless(observed_bce, needs_absent=True)
