"""Train the classifier by a method on the observed labels; keep the epoch with the best validation mAP."""

from contextlib import nullcontext
from pathlib import Path

from mlml import methods
from mlml.checkpoints.checkpoint import FOLDER, Checkpoint
from mlml.checkpoints.fingerprint import fingerprint
from mlml.core.files import sync
from mlml.core.params import parse
from mlml.images import store
from mlml.labels import table
from mlml.model.loader import examples
from mlml.runtime import parallel
from mlml.runtime.device import device_for
from mlml.runtime.launch import shared
from mlml.training import experiment, features, recipe
from mlml.training.history import History
from stages import check_inputs, in_cache, outputs, parameters, run


def main(images_folder: Path, labels_file: Path, observed_file: Path, folder: Path, history_file: Path) -> None:
    """Write weights.safetensors and trajectories.npz to FOLDER, and a line per epoch to HISTORY_FILE (.tsv)."""
    params = parameters("train")
    plan = recipe.resolve(params["training"], params["train"], f"datasets/{params['dataset']}/dataset.yaml")
    recipe.check_weights(plan)
    options = {"options": methods.options_of(params["method"], params["methods"][params["method"]])}
    axes = parse(recipe.Run, {key: params[key] for key in ("method", "seed", "device", "setting")} | options, "")
    with shared(params["processes"]):  # in each of them; the main one writes
        images, labels, observed = store.open_images(images_folder), table.read(labels_file), table.read(observed_file)
        training, validation = (examples(images, labels, split) for split in ("train", "validation"))
        table.check_splits(labels, labels_file)
        if observed.images != labels.take(training.rows).images:
            raise ValueError(f"{observed_file} is not about the training images of {labels_file}: run `dvc repro`")
        values = [plan.model_dump(), axes.model_dump(), parallel.world_size()]
        large = [*sorted(images_folder.iterdir()), *filter(Path.is_file, [Path(plan.weights)])]
        key = fingerprint(values, [labels_file, observed_file], large, device_for(axes.device))
        check_inputs()  # or the key could be that of newer code than runs
        checkpoint, kept = Checkpoint(FOLDER, key), features.kept(images_folder)
        training = training._replace(labels=observed.labels)
        with checkpoint.held(in_cache) if parallel.is_main() else nullcontext():
            on_epoch = History(history_file) if parallel.is_main() else (lambda epoch: None)
            trained = experiment.train(training, validation, plan, axes, on_epoch, checkpoint, kept)
            if parallel.is_main():
                about = {"image_size": images.size, "upright": images.upright, "method": axes.method}
                trained.save(folder, {**about, "classes": labels.classes})
                sync(history_file, *folder.iterdir(), folder)
                checkpoint.complete(outputs())


if __name__ == "__main__":
    run(main)
