"""What the best epoch is chosen by."""

import numpy as np

from mlml.labels import PRESENT, UNKNOWN
from mlml.metrics import mean_average_precision
from mlml.model.classifier import Model
from mlml.model.loader import Examples
from mlml.model.predict import predict

REMEDY = "a lower train.lr often helps"


def validation_map(model: Model, examples: Examples, where: str, method: str) -> float:
    """mAP in percent, of the known labels.

    Raises:
        FloatingPointError: a prediction is not finite; names the method, and `where` in its training.
    """
    logits = predict(model, examples)
    if not np.isfinite(logits).all():
        raise FloatingPointError(f"{where}, validation: the predictions of method {method} are not finite; {REMEDY}")
    return 100 * mean_average_precision(examples.labels == PRESENT, logits, examples.labels != UNKNOWN)
