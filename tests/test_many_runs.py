"""The commands of docs/many-runs.md, as they are written, with stages that only pretend to train."""

import re
import sys

import pandas as pd
import pytest
import yaml

from mlml.commands.results import summarise
from tests.test_architecture import ROOT
from tests.workspace import Workspace

PAGE = (ROOT / "docs/many-runs.md").read_text()
BLOCKS = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)

# A stage whose outputs follow from the method and the seed. Training takes a GPU, and waits until both have been taken.
FAKE = f"""#!{sys.executable}
import json, os, pathlib, time, yaml
stage = yaml.safe_load(open("dvc.yaml"))["stages"][os.environ["DVC_STAGE"]]
params = yaml.safe_load(open("params.yaml"))
notes, gpu = pathlib.Path(os.environ["NOTES"]), os.environ.get("CUDA_VISIBLE_DEVICES")
if os.environ["DVC_STAGE"] == "train" and gpu:
    (notes / gpu).mkdir(exist_ok=True)
    (notes / gpu / "busy").mkdir()  # an error if it is there: two runs on one GPU
    until = time.monotonic() + 200
    while not ((notes / "0").exists() and (notes / "1").exists()):
        assert time.monotonic() < until, "no second run at the same time"
        time.sleep(0.05)
    (notes / gpu / "busy").rmdir()
    assert pathlib.Path("weights/other.pth").read_text() == "brought"
score = params["seed"] + 50 * (params["method"] == "bce")
for out in sum((stage.get(kind, []) for kind in ("outs", "metrics", "plots")), []):
    path = pathlib.Path(out if isinstance(out, str) else next(iter(out)))
    path = path if path.suffix else path / "file"
    path.parent.mkdir(parents=True, exist_ok=True)
    test = {{"mAP": score, "validation_mAP": score / 2}}
    path.write_text(json.dumps(test if path.name == "test.json" else {{"images": score}}))
"""


def block(word: str) -> str:
    """The one block of commands that has this word."""
    (found,) = (text for text in BLOCKS if word in text)
    return found


def experiments(workspace: Workspace) -> pd.DataFrame:
    done = workspace.run("sh", "-c", "dvc exp show --csv --hide-workspace 2>/dev/null > ../experiments.csv")
    assert done.returncode == 0, done.stdout
    shown = pd.read_csv(workspace.folder / "../experiments.csv")
    return shown[shown["typ"] != "baseline"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A clone with a weights file of the user's, after `dvc repro`."""
    folder = tmp_path_factory.mktemp("many")
    workspace = Workspace(folder / "project")
    workspace.fake_stages(FAKE)
    # Without the files of code and the methods' options, which are most of what DVC reads, each time.
    workspace.set("params.yaml", "methods", {"an": {}, "bce": {}})
    for stage, about in workspace.get("dvc.yaml", "stages").items():
        deps = [name for name in about.get("deps", []) if not name.startswith(("mlml/", "stages/"))]
        workspace.set("dvc.yaml", f"stages.{stage}.deps", deps)
    notes, home = folder / "notes", folder / "home"
    notes.mkdir()
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\nname = test\nemail = test@localhost\n")  # what a clone finds
    workspace.more |= {"NOTES": str(notes), "HOME": str(home)}
    (workspace.folder / "weights/other.pth").write_text("brought")
    workspace.dvc("add", "weights/other.pth")
    workspace.dvc("repro")
    workspace.set("dvc.yaml", "stages.plot.frozen", True)
    workspace.commit()
    return workspace


@pytest.mark.xdist_group("many")
class TestManyRuns:
    def test_a_grid_on_two_gpus(self, project: Workspace) -> None:
        grid, failed = project.folder / "grid.txt", project.folder / "failed.txt"
        project.run("bash", "-c", block("printf"))
        wanted = {(method, seed): seed + 50 * (method == "bce") for method in ("an", "bce") for seed in range(4)}
        assert grid.read_text().splitlines() == [f"-S method={method} -S seed={seed}" for method, seed in wanted]
        bad = "-S sede=1"  # it fails first, and stops no other
        grid.write_text(f"{bad}\n{grid.read_text()}")
        done = project.run("bash", "-c", block("xargs"), seconds=500)
        assert done.returncode == 0, done.stdout
        again = [line for line in failed.read_text().splitlines() if line != bad]
        assert len(failed.read_text().splitlines()) == len(again) + 1
        if again:  # DVC may find a lock taken, although this was not seen
            grid.write_text("\n".join([*again, ""]))
            project.run("bash", "-c", block("xargs"), seconds=500)
        found = experiments(project)
        scores = {(row.method, row.seed): row.mAP for row in found.itertuples()}
        assert scores == wanted
        assert len(found) == 8
        assert summarise(found)[["method", "seeds", "mAP"]].to_numpy().tolist() == [["bce", 4, 51.5], ["an", 4, 1.5]]
        assert project.git("status", "--porcelain", "--untracked-files=no") == ""

    def test_a_task_of_a_job_array(self, project: Workspace) -> None:
        (project.folder / "many-runs.sh").write_text(block("#SBATCH"))
        (project.folder / "grid.txt").write_text("-S method=an -S seed=6\n-S method=bce -S seed=7\n")
        task = {"SLURM_SUBMIT_DIR": str(project.folder), "SLURM_ARRAY_TASK_ID": "2"}
        done = project.run("env", *(f"{name}={value}" for name, value in task.items()), "bash", "many-runs.sh")
        assert done.returncode == 0, done.stdout
        found = experiments(project).query("seed > 3")
        assert found[["method", "seed", "mAP"]].to_numpy().tolist() == [["bce", 7, 57]]
        # The files are in the project's cache.
        lock = yaml.safe_load(project.git("show", f"{found['rev'].iloc[0]}:dvc.lock"))
        md5 = next(out["md5"] for out in lock["stages"]["train"]["outs"] if out["path"] == "model/weights.safetensors")
        assert (project.folder / ".dvc/cache/files/md5" / md5[:2] / md5[2:]).read_text() == '{"images": 57}'
