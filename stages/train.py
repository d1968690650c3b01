"""Train the classifier by a method on the observed labels; keep the epoch with the best validation mAP."""

from pathlib import Path

import pandas as pd
import torch

from mlml import images, methods, model, recipe, table, training
from mlml.files import replacing
from mlml.inference import Examples, device_for
from mlml.params import parse
from mlml.trajectories import Recorder
from stages import parameters, run


def main(images_file: Path, labels_file: Path, observed_file: Path, folder: Path, history_file: Path) -> None:
    """Write weights.safetensors and trajectories.npz to FOLDER, and a line an epoch to HISTORY_FILE (.tsv)."""
    params = parameters("train")
    plan = recipe.resolve(params["training"], params["train"], f"datasets/{params['dataset']}/dataset.yaml")
    axes = parse(recipe.Run, {key: params[key] for key in recipe.Run.model_fields}, "params.yaml")
    device = device_for(axes.device)
    labels, observed = table.read(labels_file), table.read(observed_file)
    rows = images.open_rows(images_file)
    train_rows, validation_rows = labels.rows("train"), labels.rows("validation")
    if observed.images != labels.take(train_rows).images:
        raise ValueError(f"{observed_file} is not about the training images of {labels_file}: run `dvc repro`")
    train = Examples(rows, train_rows, observed.labels)
    validation = Examples(rows, validation_rows, labels.labels[validation_rows])

    training.seed_everything(axes.seed)
    known = methods.TrainLabels(torch.from_numpy(observed.labels), plan.prior, plan.epochs)
    method = methods.build(axes.method, known, params["methods"][axes.method]).to(device)
    classifier = model.Classifier(plan.backbone, len(labels.classes))
    model.load_backbone(classifier, plan.weights)
    classifier.to(device)
    recorder = Recorder(len(train.rows), len(labels.classes), axes.seed, method, device)

    folder.mkdir(parents=True, exist_ok=True)
    history: list[training.Epoch] = []

    def write_history(epoch: training.Epoch) -> None:
        history.append(epoch)
        with replacing(history_file) as part:
            pd.DataFrame(history).round(4).to_csv(part, sep="\t", index=False, lineterminator="\n")

    best = training.fit(classifier, method, train, validation, plan, axes.seed, recorder, write_history)
    about = {"classes": labels.classes, "method": axes.method, **best._asdict()}
    model.save(classifier, folder / "weights.safetensors", about)
    recorder.save(folder / "trajectories.npz")
    print(f"{axes.method}: validation mAP {best.validation_mAP:.2f} at epoch {best.epoch}")


if __name__ == "__main__":
    run(main)
