"""The paper's method without update: pseudo labels keep their initial values (an ablation of the paper)."""

from functools import partial

from mlml.methods.shared.pseudo_labels import PseudoLabel

method = partial(PseudoLabel, update=False)
