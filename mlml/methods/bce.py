"""Binary cross entropy on the observed labels; unknown labels are left out (paper, eq. `bce` and `ob`)."""

from mlml.methods.base import stateless
from mlml.methods.shared.losses import observed_bce

method = stateless(observed_bce, needs_absent=True)
