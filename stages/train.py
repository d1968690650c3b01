"""Train the classifier by a method on the observed labels; keep the epoch with the best validation mAP."""

from pathlib import Path

import torch

from mlml import images, inference, methods, model, recipe, table, training
from mlml.history import History
from mlml.params import parse
from mlml.trajectories import Recorder
from stages import parameters, run


def main(images_folder: Path, labels_file: Path, observed_file: Path, folder: Path, history_file: Path) -> None:
    """Write weights.safetensors and trajectories.npz to FOLDER, and a line an epoch to HISTORY_FILE (.tsv)."""
    params = parameters("train")
    plan = recipe.resolve(params["training"], params["train"], f"datasets/{params['dataset']}/dataset.yaml")
    axes = parse(recipe.Run, {key: params[key] for key in recipe.Run.model_fields}, "")
    device = inference.device_for(axes.device)
    prepared, labels, observed = images.open_images(images_folder), table.read(labels_file), table.read(observed_file)
    train = inference.examples(prepared, labels, "train")
    if observed.images != labels.take(train.rows).images:
        raise ValueError(f"{observed_file} is not about the training images of {labels_file}: run `dvc repro`")

    training.seed_everything(axes.seed)
    classifier = model.Classifier(plan.backbone, len(labels.classes))
    model.check_size(classifier, prepared.size)
    model.load_backbone(classifier, plan.weights)
    known = methods.TrainLabels(torch.from_numpy(observed.labels), plan.prior, plan.epochs)
    method = methods.build(axes.method, known, params["methods"][axes.method]).to(device)
    classifier.to(device)
    recorder = Recorder(len(train.rows), len(labels.classes), axes.seed, method, device)

    train = train._replace(labels=observed.labels)
    validation = inference.examples(prepared, labels, "validation")
    best = training.fit(classifier, method, train, validation, plan, axes.seed, recorder, History(history_file))
    folder.mkdir(parents=True, exist_ok=True)
    about = {"classes": labels.classes, "method": axes.method, **best._asdict()}
    model.save(classifier, folder / "weights.safetensors", about)
    recorder.save(folder / "trajectories.npz")
    print(f"{axes.method}: validation mAP {best.validation_mAP:.2f} at epoch {best.epoch}")


if __name__ == "__main__":
    run(main)
