"""Check all parameters, and that what they name is there: a typo is found before anything long runs."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlml.commands.parameters import fault_of, faults
from stages import parameters, run

PROJECT = Path(os.environ.get("DVC_ROOT", "."))  # not the working directory in a copy for a queued experiment


def main(checked: Path) -> None:
    """Check params.yaml and the data set's dataset.yaml; write CHECKED, whose content is always the same."""
    params: dict[str, Any] = {}
    fault = fault_of(lambda: params.update(parameters("check"))) or fault_of(lambda: check_there(params))
    if lines := [fault] if fault else faults(params):
        if os.environ.get("DVC_EXP_NAME") and PROJECT.resolve() == Path.cwd():
            lines.append("what `-S` has set stays in its file; `git restore params.yaml` puts params.yaml back")
        raise ValueError("\n  ".join(lines))
    checked.parent.mkdir(exist_ok=True)
    checked.write_text("The parameters were checked.\n")
    print(f"{params['dataset']}, {params['setting']}, {params['method']}")


def check_there(params: Mapping[str, Any]) -> None:
    """Check that the data set's folder is here, and in a copy of the project all files that the project has.

    Raises:
        ValueError: it is not; says how to bring it.
    """
    name, folder = params["dataset"], Path(f"datasets/{params['dataset']}")
    weights = params["train"].get("weights") if isinstance(params["train"], dict) else None
    wanted = [PROJECT / str(weights), *(PROJECT / folder).rglob("*")] if PROJECT.resolve() != Path.cwd() else []
    files = (path.relative_to(PROJECT) for path in wanted if path.is_file())
    if lost := sorted(str(path) for path in files if not path.exists()):
        tops = sorted({"/".join(path.split("/")[:3]) for path in lost if not path.endswith("dataset.yaml")})
        steps = [f"dvc add {' '.join(tops)}"] if tops else []
        steps += [f"git add {' '.join(sorted({str(Path(path).parent) for path in [*tops, *lost[:1]]}))}"]
        raise ValueError(
            f"{len(lost)} files, as {lost[0]}, are not in the copy of the project in which DVC runs this experiment: "
            f"neither git nor DVC tracks them. Run `{'`, `'.join(steps)}`, and queue the experiment again"
        )
    allowed = sorted(file.parent.name for file in Path("datasets").glob("*/dataset.yaml"))
    if name not in allowed:
        raise ValueError(f"dataset: {name!r} is not allowed; it must be a folder in datasets/: {', '.join(allowed)}")


if __name__ == "__main__":
    run(main)
