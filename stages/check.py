"""Check all parameters, and that what they name is there: a typo is found before anything long runs."""

import os
from pathlib import Path

from mlml.commands.parameters import fault_of, faults
from stages import parameters, run


def main(checked: Path) -> None:
    """Check params.yaml and the data set's dataset.yaml; write CHECKED, whose content is always the same."""
    params = parameters("check")
    fault = fault_of(lambda: check_data_set(params["dataset"]))
    if lines := [fault] if fault else faults(params):
        if os.environ.get("DVC_EXP_NAME") and os.environ.get("DVC_ROOT") == os.getcwd():
            lines.append("params.yaml keeps what `-S` has set; `git restore params.yaml` puts it back")
        raise ValueError("\n  ".join(lines))
    checked.parent.mkdir(exist_ok=True)
    checked.write_text("The parameters were checked.\n")
    print(f"{params['dataset']}, {params['setting']}, {params['method']}")


def check_data_set(name: object) -> None:
    """Check that the data set's folder is here, and complete if this is a copy for one of DVC's queued experiments.

    Raises:
        ValueError: it is not; says how to bring it.
    """
    allowed = sorted(file.parent.name for file in Path("datasets").glob("*/dataset.yaml"))
    project, folder = Path(os.environ.get("DVC_ROOT", ".")), Path(f"datasets/{name}")
    if project.resolve() != Path.cwd() and (project / folder).is_dir():
        names = {path.name for path in (project / folder).iterdir()} - {path.name for path in folder.glob("*")}
        if lost := [str(folder / each) for each in sorted(names)]:
            data = " ".join(each for each in lost if not each.endswith("dataset.yaml"))
            raise ValueError(
                f"{', '.join(lost)}: not in the copy of the project in which DVC runs this experiment, since neither "
                f"git nor DVC tracks it. Run `dvc add {data}` and `git add {folder}`, and queue the experiment again"
            )
    if name not in allowed:
        raise ValueError(f"dataset: {name!r} is not allowed; it must be a folder in datasets/: {', '.join(allowed)}")


if __name__ == "__main__":
    run(main)
