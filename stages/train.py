"""Train the classifier by a method on the observed labels; keep the epoch with the best validation mAP."""

import sys
from pathlib import Path

from mlml import experiment, images, methods, model, recipe, table
from mlml.checkpoint import FOLDER, Checkpoint, others
from mlml.fingerprint import fingerprint
from mlml.history import History
from mlml.inference import device_for
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
    options, device = methods.options_of(axes.method, params["methods"][axes.method]), device_for(axes.device)
    values = {"recipe": plan.model_dump(), "axes": axes.model_dump(), "options": options}
    large = [*sorted(images_folder.iterdir()), *filter(Path.is_file, [Path(plan.weights)])]
    checkpoint = Checkpoint(FOLDER, fingerprint(values, [labels_file, observed_file], large, device))
    if remark := others(checkpoint):
        print(remark, file=sys.stderr)
    with checkpoint.interruptible():
        classifier, best, recorder = experiment.train(
            prepared, labels, observed.labels, plan, axes, options, History(history_file), checkpoint
        )
    folder.mkdir(parents=True, exist_ok=True)
    about = {"classes": labels.classes, "method": axes.method, **best._asdict()}
    model.save(classifier, folder / "weights.safetensors", about)
    recorder.save(folder / "trajectories.npz")
    checkpoint.remove()
    print(f"{axes.method}: validation mAP {best.validation_mAP:.2f} at epoch {best.epoch}")


if __name__ == "__main__":
    run(main)
