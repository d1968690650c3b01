"""The paper's method without disturbances of undecided pseudo labels (an ablation of the paper)."""

from mlml.methods.base import preset
from mlml.methods.shared.pseudo_labels import PseudoLabel

method = preset(PseudoLabel, disturbances=False)
