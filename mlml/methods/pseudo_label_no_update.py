"""The paper's method without update: pseudo labels keep their initial values (an ablation of the paper)."""

from mlml.methods.base import preset
from mlml.methods.shared.pseudo_labels import PseudoLabel

method = preset(PseudoLabel, update=False)
