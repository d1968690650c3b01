"""The paper's method: soft pseudo labels for the unknown labels, updated from running averages.

The equations are in `mlml.methods.shared.pseudo_labels`; its ablations are the methods `pseudo_label_*`.
"""

from mlml.methods.shared.pseudo_labels import PseudoLabel

method = PseudoLabel
