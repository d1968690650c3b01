"""The paper's method without weighted loss: L_obs + L_unobs (an ablation of the paper)."""

from mlml.methods.base import preset
from mlml.methods.shared.pseudo_labels import PseudoLabel

method = preset(PseudoLabel, weighted=False)
