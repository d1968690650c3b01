import torch

from mlml.methods.shared.large_loss import large_losses

LOSS = torch.tensor([[9.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]])
UNKNOWN = torch.tensor([[False, True, True, True], [True, True, True, False]])


def test_the_largest_unknown_losses() -> None:
    assert large_losses(LOSS, UNKNOWN, 0.25).tolist() == [[False] * 4, [False, True, True, False]]  # 2 of 8
    assert large_losses(LOSS, UNKNOWN, 0.26).sum() == 3  # rounded up


def test_none_and_all() -> None:
    assert not large_losses(LOSS, UNKNOWN, 0).any()
    for share in (0.8, 1, 7.5):  # more than there are
        assert torch.equal(large_losses(LOSS, UNKNOWN, share), UNKNOWN)
    assert not large_losses(LOSS, torch.zeros_like(UNKNOWN), 0.5).any()


def test_equal_losses_go_together() -> None:
    assert torch.equal(large_losses(torch.ones(2, 4), UNKNOWN, 0.1), UNKNOWN)


def test_the_number_does_not_suffer_from_binary_fractions() -> None:
    loss = torch.arange(100.0)[None]
    assert 0.07 * 100 > 7
    assert large_losses(loss, torch.ones_like(loss, dtype=torch.bool), 0.07).sum() == 7


def test_the_choice_carries_no_gradient() -> None:
    loss = LOSS.clone().requires_grad_()
    assert not large_losses(loss, UNKNOWN, 0.5).requires_grad
