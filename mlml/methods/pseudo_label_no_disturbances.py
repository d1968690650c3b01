"""The paper's method without disturbances of undecided pseudo labels (an ablation of the paper)."""

from functools import partial

from mlml.methods.shared.pseudo_labels import PseudoLabel

method = partial(PseudoLabel, disturbances=False)
