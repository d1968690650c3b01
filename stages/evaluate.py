"""Score the test images with the trained classifier; mean and per-class average precision."""

from pathlib import Path

import numpy as np

from mlml.core.files import atomic_write, write_json
from mlml.evaluation import DECIMALS, evaluate, line
from mlml.images import store
from mlml.labels import table
from mlml.model import hardware, loader, predict, weights
from mlml.runtime import parallel
from mlml.runtime.device import device_for, enough_memory, seed_everything
from mlml.runtime.launch import shared
from stages import parameters, run


def main(
    images_folder: Path, labels_file: Path, weights_file: Path, scores: Path, test_file: Path, classes_file: Path
) -> None:
    """Write SCORES (logits of the test images, .npy), TEST_FILE (.json) and CLASSES_FILE (.tsv)."""
    params = parameters("evaluate")
    with shared(params["processes"]):
        device = device_for(params["device"])
        classifier, about = weights.load(weights_file)
        labels = table.read(labels_file)
        if tuple(about["classes"]) != labels.classes:
            raise ValueError(f"{weights_file} was trained on other classes than {labels_file} has: run `dvc repro`")
        test = loader.examples(store.open_images(images_folder), labels, "test")
        seed_everything(0)  # for the algorithms of the training
        hardware.set_up_prediction(about["engine"], classifier)
        with enough_memory("device: cpu, or a smaller prepare.image_size or train.backbone needs less of a GPU's"):
            logits = predict.predict(classifier.to(device), test, "evaluate")
        if not parallel.is_main():
            return
    summary, per_class = evaluate(labels.classes, test.labels, logits)
    summary |= {key: round(value, DECIMALS) for key, value in about.items() if key.startswith("validation_")}
    summary["best_epoch"] = about["epoch"]
    with atomic_write(scores) as part:
        np.save(part, logits)
    with atomic_write(classes_file) as part:
        per_class.to_csv(part, sep="\t", index=False, lineterminator="\n")
    write_json(test_file, summary)
    print(line(summary))


if __name__ == "__main__":
    run(main)
