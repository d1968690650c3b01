"""The losses of an epoch's steps."""

import torch

from mlml.training.running_loss import RunningLoss
from tests.shared import needs_gpu


def test_all_losses_so_far_without_their_graph() -> None:
    losses, weight = RunningLoss(5, torch.device("cpu")), torch.ones((), requires_grad=True)
    assert losses.look().tolist() == []
    for value in (1.0, 2.0, float("inf")):
        losses.add(weight * value)
    assert losses.look().tolist() == losses.all().tolist() == [1.0, 2.0, float("inf")]
    assert not losses.all().requires_grad


@needs_gpu
def test_on_a_gpu_a_look_shows_what_the_look_before_asked_for() -> None:
    losses = RunningLoss(5, torch.device("cuda"))
    for value in (1.0, 2.0):
        losses.add(torch.tensor(value, device="cuda"))
    assert losses.look().tolist() == []
    losses.add(torch.tensor(3.0, device="cuda"))
    assert losses.look().tolist() == [1.0, 2.0]
    assert losses.all().tolist() == [1.0, 2.0, 3.0]
