"""The paper's method without its imbalance design: C1 = C2 = 1 (an ablation of the paper)."""

from functools import partial

from mlml.methods.shared.pseudo_labels import PseudoLabel

method = partial(PseudoLabel, imbalance=False, c1=None, c2=None)
