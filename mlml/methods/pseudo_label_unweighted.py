"""The paper's method without weighted loss: L_obs + L_unobs (an ablation of the paper)."""

from functools import partial

from mlml.methods.shared.pseudo_labels import PseudoLabel

method = partial(PseudoLabel, weighted=False)
