"""The paper's method: soft pseudo labels for the unknown labels, updated from running averages.

The equations are in `mlml.pseudo_labels`; its ablations are the methods `pseudo_label_*`.
"""

from mlml.pseudo_labels import PseudoLabel

method = PseudoLabel
