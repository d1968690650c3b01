"""What layout and precision give in a training step: ``python -m benchmarks.switches resnet50 224 16``.

Forward, backward and Adam on one batch of noise, with all values of `train.channels_last` and `train.precision`, which
take turns; ratios to channels first in float32, medians over the rounds.
"""

import argparse
import itertools
from collections.abc import Callable

import torch

from benchmarks.turns import rate, ratio, take_turns
from mlml.model.classifier import Classifier, Precision
from mlml.runtime.device import device_for

CLASSES = 20
PLAIN = "channels first, float32"


def step(backbone: str, images: torch.Tensor, channels_last: bool, precision: Precision) -> Callable[[], int]:
    """A training step with a model of its own; how many images it had."""
    model = Classifier(backbone, CLASSES).to(images.device).train()
    model.set_layout(channels_last)
    model.precision = precision
    optimizer = torch.optim.Adam(model.parameters(), 1e-5)

    def work() -> int:
        optimizer.zero_grad(set_to_none=True)
        loss = model(images).sigmoid().mean()
        loss.backward()
        optimizer.step()
        loss.item()  # waits for the device
        return len(images)

    return work


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.switches", description=__doc__.partition("\n\n")[0])
    parser.add_argument("backbone", help="a timm model")
    parser.add_argument("size", type=int, help="edge of the images in pixels")
    parser.add_argument("batch", type=int, help="images a batch")
    parser.add_argument("--rounds", type=int, default=3, help="steps of each")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    torch.manual_seed(0)
    shape = (options.batch, options.size, options.size, 3)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, device=device_for(options.device))
    layouts, precisions = {"channels first": False, "channels_last": True}, ("float32", "bfloat16")
    steps = {
        f"{layout}, {precision}": step(options.backbone, images, layouts[layout], precision)
        for layout, precision in itertools.product(layouts, precisions)
    }
    rates = take_turns(steps, options.rounds)
    print(f"{options.backbone}, {options.size} pixels, batches of {options.batch}")
    for name in rates:
        print(f"{name:26}{rate(rates, name):>24} images/s {ratio(rates, name, PLAIN):>20}")


if __name__ == "__main__":
    main()
