import pytest
from torch import Tensor

from mlml.model.classifier import Classifier


@pytest.fixture
def featured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Tensor, bool]]:
    """The batches of images that a backbone sees, and whether it was training."""
    seen: list[tuple[Tensor, bool]] = []
    features = Classifier.features

    def spy(model: Classifier, images: Tensor) -> Tensor:
        seen.append((images, model.training))
        return features(model, images)

    monkeypatch.setattr(Classifier, "features", spy)
    return seen
