"""The paper's method without its imbalance design: C1 = C2 = 1 (an ablation of the paper)."""

from mlml.methods.base import preset
from mlml.methods.shared.pseudo_labels import PseudoLabel

method = preset(PseudoLabel, imbalance=False, c1=None, c2=None)
