import torch
from sklearn.metrics import log_loss

from mlml.methods.shared.losses import bce, cross_entropy, focal, large_losses, mean_where, observed_bce, with_margin

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
    assert logits.grad is not None
    assert torch.equal(logits.grad == 0, OBSERVED == 0)


def test_bce_is_exact_at_large_logits() -> None:
    logits = torch.tensor([[-1000.0, 1000.0]])
    assert bce(logits, torch.tensor([[1, -1]], dtype=torch.int8)).tolist() == [[1000.0, 1000.0]]


def test_cross_entropy_with_a_soft_target() -> None:
    target = torch.tensor([[0.0, 0.3, 1.0]], dtype=torch.float64)
    p = LOGITS[:1].sigmoid()
    expected = -(target * p.log() + (1 - target) * (1 - p).log())
    torch.testing.assert_close(cross_entropy(LOGITS[:1], target), expected)


def test_focal() -> None:
    present = OBSERVED == 1
    p = LOGITS.sigmoid()
    q = torch.where(present, p, 1 - p)
    torch.testing.assert_close(focal(LOGITS, present, 1.7), -((1 - q) ** 1.7) * q.log())
    torch.testing.assert_close(focal(LOGITS, present, 0), bce(LOGITS, OBSERVED))


def test_the_margin_is_on_positives_only() -> None:
    expected = [[-0.5, -2.0, 1.0], [3.0, -0.1, -0.8], [1.0, 2.0, 3.0]]
    torch.testing.assert_close(with_margin(LOGITS, OBSERVED, 1.0), torch.tensor(expected, dtype=torch.float64))


def test_mean_where_of_nothing_is_zero() -> None:
    values = torch.tensor([[1.0, 3.0], [5.0, 7.0]])
    mask = torch.tensor([[True, True], [False, False]])
    assert mean_where(values, mask).tolist() == [2.0, 0.0]


LOSSES = torch.tensor([[9.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]])
UNKNOWN = torch.tensor([[False, True, True, True], [True, True, True, False]])


def test_the_largest_unknown_losses() -> None:
    assert large_losses(LOSSES, UNKNOWN, 0.25).tolist() == [[False] * 4, [False, True, True, False]]  # 2 of 8
    assert large_losses(LOSSES, UNKNOWN, 0.26).sum() == 3  # rounded up


def test_none_and_all() -> None:
    assert not large_losses(LOSSES, UNKNOWN, 0).any()
    for share in (0.8, 1, 7.5):  # more than there are
        assert torch.equal(large_losses(LOSSES, UNKNOWN, share), UNKNOWN)
    assert not large_losses(LOSSES, torch.zeros_like(UNKNOWN), 0.5).any()


def test_equal_losses_go_together() -> None:
    assert torch.equal(large_losses(torch.ones(2, 4), UNKNOWN, 0.1), UNKNOWN)


def test_the_number_does_not_suffer_from_binary_fractions() -> None:
    loss = torch.arange(100.0)[None]
    assert 0.07 * 100 > 7
    assert large_losses(loss, torch.ones_like(loss, dtype=torch.bool), 0.07).sum() == 7


def test_the_choice_carries_no_gradient() -> None:
    loss = LOSSES.clone().requires_grad_()
    assert not large_losses(loss, UNKNOWN, 0.5).requires_grad
