import torch
from sklearn.metrics import log_loss

from mlml.methods.shared.losses import bce, large_losses, observed_bce

OBSERVED = torch.tensor([[1, 0, -1], [-1, -1, 1], [0, 0, 0]], dtype=torch.int8)
LOGITS = torch.tensor([[0.5, -2.0, 1.0], [3.0, -0.1, 0.2], [1.0, 2.0, 3.0]], dtype=torch.float64)


def test_observed_bce_equals_scikit_learn() -> None:
    p = LOGITS.sigmoid().numpy()
    first = log_loss([1, 0], p[0, [0, 2]], labels=[0, 1])
    second = log_loss([0, 0, 1], p[1], labels=[0, 1])
    torch.testing.assert_close(observed_bce(LOGITS, OBSERVED).item(), (first + second + 0) / 3)


def test_unknown_labels_have_no_gradient() -> None:
    logits = LOGITS.clone().requires_grad_()
    observed_bce(logits, OBSERVED).backward()
    assert torch.equal(logits.grad == 0, OBSERVED == 0)


def test_bce_is_exact_at_large_logits() -> None:
    logits = torch.tensor([[-1000.0, 1000.0]])
    assert bce(logits, torch.tensor([[1, -1]], dtype=torch.int8)).tolist() == [[1000.0, 1000.0]]


def test_equal_losses_go_together() -> None:
    unknown = torch.tensor([[False, True, True, True], [True, True, True, False]])
    assert torch.equal(large_losses(torch.ones(2, 4), unknown, 0.1), unknown)


def test_the_number_does_not_suffer_from_binary_fractions() -> None:
    loss = torch.arange(100.0)[None]
    assert 0.07 * 100 > 7
    assert large_losses(loss, torch.ones_like(loss, dtype=torch.bool), 0.07).sum() == 7
