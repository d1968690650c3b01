"""Average precision of every class, three ways, at COCO's size: ``python -m benchmarks.evaluation``.

ours          mlml.metrics.average_precision
scikit-learn  its average_precision_score, in a loop over the classes
torchmetrics  its MultilabelAveragePrecision, exact, on the processor, without the check of its arguments

They take turns, so that a busy moment of the machine hits all of them. Ratios are medians over the rounds. Each runs in
one thread. The scores are probabilities; torchmetrics would make some of any others.
"""

import argparse
import multiprocessing
import resource
import statistics
from collections.abc import Callable

import numpy as np
import torch
from sklearn.metrics import average_precision_score
from torchmetrics.classification import MultilabelAveragePrecision

from benchmarks.memory import peak
from benchmarks.turns import once, take_turns
from mlml.core.threads import cores
from mlml.metrics import average_precision

PRESENT = 0.036  # of the labels, as in COCO
PEER = "scikit-learn"
TOLERANCE = {"ours": 1e-12, "torchmetrics": 1e-5}  # torchmetrics adds up in 32 bits


def data(n: int, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Truth, bool, and probabilities, float32, both [n, classes]; each class has a positive."""
    random = np.random.default_rng(seed)
    scores = np.empty((n, classes), np.float32)
    truth = random.random(out=scores, dtype=np.float32) < PRESENT
    truth[random.integers(n)] = True
    # In place: the peak of memory shall be that of what is measured.
    random.standard_normal(out=scores, dtype=np.float32)
    np.add(scores, 2, out=scores, where=truth)
    torch.from_numpy(scores).sub_(2).mul_(2).sigmoid_()
    return truth, scores


def contestants(n: int, classes: int, seed: int = 0) -> dict[str, Callable[[], np.ndarray]]:
    """Name -> a function that gives the average precision of each class, float [classes], of the same random data."""
    truth, scores = data(n, classes, seed)
    target, predicted = torch.from_numpy(truth.view(np.int8)), torch.from_numpy(scores)

    def loop() -> np.ndarray:
        return np.array([average_precision_score(truth[:, j], scores[:, j]) for j in range(classes)])

    def torchmetrics() -> np.ndarray:
        metric = MultilabelAveragePrecision(classes, average=None, thresholds=None, validate_args=False)
        metric.update(predicted, target)
        return metric.compute().numpy()

    return {"ours": lambda: average_precision(truth, scores), PEER: loop, "torchmetrics": torchmetrics}


def agree(functions: dict[str, Callable[[], np.ndarray]]) -> None:
    """Prints how far each is from scikit-learn's result, and exits when that is too far."""
    expected = functions[PEER]()
    for name, most in TOLERANCE.items():
        off = np.abs(functions[name]() - expected).max()
        print(f"{name}: {off:.1e} from {PEER} at most")
        if not off <= most:
            raise SystemExit(f"{name}: that is more than {most}")


def growth(name: str, n: int, classes: int) -> int:
    """Bytes by which the peak of this process's memory grows, beyond the data; right in a fresh process only."""
    contestants(50, 2)[name]()  # loads what is loaded at the first call
    function = contestants(n, classes)[name]
    before = peak(resource.RUSAGE_SELF)
    function()
    return peak(resource.RUSAGE_SELF) - before


def memory(n: int, classes: int) -> dict[str, int]:
    """Name -> `growth`. To be called while this process is small: a new one's peak starts from what its parent has."""
    context = multiprocessing.get_context("spawn")
    grown = {}
    for name in (PEER, *TOLERANCE):
        with context.Pool(1) as pool:
            grown[name] = pool.apply(growth, (name, n, classes))
    return grown


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evaluation", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--images", type=int, default=40_137)
    parser.add_argument("--classes", type=int, default=80)
    parser.add_argument("--rounds", type=int, default=11)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{options.images:,} images, {options.classes} classes, {options.rounds} rounds, cores: {cores()}")
    grown = memory(options.images, options.classes)
    functions = contestants(options.images, options.classes)
    agree(functions)
    rates = take_turns({name: once(function) for name, function in functions.items()}, options.rounds)
    print(f"| | ms | (least - most) | {PEER} to it | (least - most) | memory, MB |\n|---|--:|--:|--:|--:|--:|")
    for name, rate in rates.items():
        took = [1000 / each for each in rate]
        ratios = [one / base for one, base in zip(rate, rates[PEER], strict=True)]
        spread, ratio = (f"({min(each):.1f} - {max(each):.1f})" for each in (took, ratios))
        print(
            f"| {name} | {statistics.median(took):.1f} | {spread} | {statistics.median(ratios):.1f} | {ratio} | "
            f"{grown[name] / 1e6:.1f} |"
        )


if __name__ == "__main__":
    main()
