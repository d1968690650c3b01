"""Train the classifier by a method on the observed labels; keep the epoch with the best validation mAP."""

from pathlib import Path

from mlml import experiment, images, model, recipe, table
from mlml.history import History
from mlml.params import parse
from stages import parameters, run


def main(images_folder: Path, labels_file: Path, observed_file: Path, folder: Path, history_file: Path) -> None:
    """Write weights.safetensors and trajectories.npz to FOLDER, and a line an epoch to HISTORY_FILE (.tsv)."""
    params = parameters("train")
    plan = recipe.resolve(params["training"], params["train"], f"datasets/{params['dataset']}/dataset.yaml")
    axes = parse(recipe.Run, {key: params[key] for key in recipe.Run.model_fields}, "")
    prepared, labels, observed = images.open_images(images_folder), table.read(labels_file), table.read(observed_file)
    if observed.images != labels.take(labels.rows("train")).images:
        raise ValueError(f"{observed_file} is not about the training images of {labels_file}: run `dvc repro`")
    options = params["methods"][axes.method]
    classifier, best, recorder = experiment.train(
        prepared, labels, observed.labels, plan, axes, options, History(history_file)
    )
    folder.mkdir(parents=True, exist_ok=True)
    about = {"classes": labels.classes, "method": axes.method, **best._asdict()}
    model.save(classifier, folder / "weights.safetensors", about)
    recorder.save(folder / "trajectories.npz")
    print(f"{axes.method}: validation mAP {best.validation_mAP:.2f} at epoch {best.epoch}")


if __name__ == "__main__":
    run(main)
