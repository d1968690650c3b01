"""Train the classifier by a method on the observed labels; keep the epoch with the best validation mAP."""

import sys
from contextlib import nullcontext
from pathlib import Path

from mlml import methods
from mlml.checkpoints.checkpoint import FOLDER, Checkpoint, others
from mlml.checkpoints.fingerprint import fingerprint
from mlml.core.files import sync
from mlml.core.params import parse
from mlml.images import store
from mlml.labels import table
from mlml.runtime import parallel
from mlml.runtime.device import device_for
from mlml.runtime.launch import shared
from mlml.training import experiment, recipe
from mlml.training.history import History
from stages import parameters, run


def main(images_folder: Path, labels_file: Path, observed_file: Path, folder: Path, history_file: Path) -> None:
    """Write weights.safetensors and trajectories.npz to FOLDER, and a line an epoch to HISTORY_FILE (.tsv)."""
    params = parameters("train")
    plan = recipe.resolve(params["training"], params["train"], f"datasets/{params['dataset']}/dataset.yaml")
    axes = parse(recipe.Run, {key: params[key] for key in recipe.Run.model_fields}, "")
    options = methods.options_of(axes.method, params["methods"][axes.method])
    with shared(params["processes"]):  # in each of them; the first one writes
        prepared = store.open_images(images_folder)
        labels, observed = table.read(labels_file), table.read(observed_file)
        if observed.images != labels.take(labels.rows("train")).images:
            raise ValueError(f"{observed_file} is not about the training images of {labels_file}: run `dvc repro`")
        device = device_for(axes.device)
        values = [plan.model_dump(), axes.model_dump(), options, parallel.world_size()]
        large = [*sorted(images_folder.iterdir()), *filter(Path.is_file, [Path(plan.weights)])]
        checkpoint = Checkpoint(FOLDER, fingerprint(values, [labels_file, observed_file], large, device))
        if parallel.is_main() and (remark := others(checkpoint)):
            print(remark, file=sys.stderr)
        with checkpoint.held() if parallel.is_main() else nullcontext():
            on_epoch = History(history_file) if parallel.is_main() else (lambda epoch: None)
            trained = experiment.train(prepared, labels, observed.labels, plan, axes, options, on_epoch, checkpoint)
            if parallel.is_main():
                trained.save(folder, {"classes": labels.classes, "method": axes.method})
                sync(history_file, *folder.iterdir(), folder)
                checkpoint.remove()


if __name__ == "__main__":
    run(main)
