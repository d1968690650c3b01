"""The real dvc.yaml in a temporary clone: what runs, what does not, and what a user is told."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from safetensors import safe_open

from mlml.commands.selection import select
from tests.test_architecture import ROOT
from tests.workspace import Workspace, small_coco, small_nuswide, small_voc

CHECK = ["check"]  # runs whenever a value in params.yaml changes, and gives the same output
ALL = ["download", "prepare", "corrupt", "train", "evaluate", "plot"]
P, DIGITS, VOC = "params.yaml", "datasets/digits/dataset.yaml", "datasets/voc2012/dataset.yaml"
COCO, NUSWIDE = "datasets/coco2014/dataset.yaml", "datasets/nuswide/dataset.yaml"

# file, key, another value, the stages that must run and no others
RERUNS = [
    (P, "dataset", "voc2012", ALL),
    (P, "plot.seed", 1, ALL[5:]),
    (P, "method", "bce", ALL[3:]),
    (P, "seed", 1, ALL[3:]),
    (P, "train.lr", 0.01, ALL[3:]),
    (DIGITS, "training.lr", 0.01, ALL[3:]),
    (P, "setting", "spl", ALL[2:]),
    (P, "corrupt.seed", 1, ALL[2:]),
    (P, "device", "cpu", ALL[3:]),
    (P, "prepare.image_size", 32, ALL[1:]),
    (P, "prepare.storage", "encoded", ALL[1:]),
    (DIGITS, "images.options.test_images", 20, ALL[1:]),
    (P, "methods.pseudo_label.alpha", 0.9, []),  # another method's option
    (VOC, "training.lr", 0.5, []),  # another data set's entries
    (VOC, "images.image_size", 224, []),
    (VOC, "archives", [], []),
]

# What `dvc exp run -S` sets, and what stands in the message. The values are tested where they are parsed; here, that
# a user hears of them in the first stage, and of all at once.
BAD = [
    (
        "train.lr=-1 plot.format=gif setting=pol_2",
        [
            "check: setting: 'pol_2' is not allowed; a setting is fol, spl, as_is, pol_D or ppl_D",
            "train.lr: -1 is not allowed; must be greater than 0",
            "plot.format: 'gif' is not allowed; must be 'png', 'svg' or 'pdf'",
        ],
    ),
    ("method=ASL", ["check: method: 'ASL' is not allowed; it must be one of an, asl, bce"]),
    ("method=null +methods.an.x=1", ["check: method: None is not allowed; it must be one of an, asl, bce"]),
    ("+methods.an.x=1", ["check: methods.an.x: unknown key; it takes none"]),
    ("methods=null", ["check: methods: None is not allowed; must be keys and values"]),
    ("+methods.nope={}", ["check: methods: nope: unknown key"]),
    ("train.weights=/etc/hosts", ["check: train.weights: '/etc/hosts' is not allowed; must be hub, none or a file in"]),
    ("dataset=min", ["check: dataset: 'min' is not allowed; it must be a folder in datasets/: coco2014, digits"]),
    ("dataset=2024", ["check: dataset: '2024' is not allowed; it must be a folder"]),
    ("dataset=off", ["check: dataset: 'off' is not allowed; it must be a folder"]),
    (
        "train.weights=weights/no.pth device=meta processes=1000000",
        ["train.weights: weights/no.pth is missing", "device: 'meta' is not", "processes: 1000000 is not allowed"],
    ),
    ("train.backbone=resnet", ["check: train.backbone: 'resnet' is not allowed; timm"]),
    ("+trian.lr=1", ["check: params.yaml: trian: unknown key; it takes corrupt, dataset, device, method"]),
]


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A clone after `dvc repro`, in which stages only pretend to work."""
    workspace = Workspace(tmp_path_factory.mktemp("fake"))
    workspace.fake_stages()
    assert workspace.executed() == CHECK + ALL
    workspace.commit()
    return workspace


@pytest.mark.xdist_group("reruns")
class TestReruns:
    def test_nothing_changed_nothing_runs(self, fake: Workspace) -> None:
        assert fake.executed() == []
        assert fake.git("status", "--porcelain") == ""  # nothing that git should know of, nothing edited

    @pytest.mark.parametrize(("file", "key", "value", "stages"), RERUNS, ids=[f"{row[1]}={row[2]}" for row in RERUNS])
    def test_a_change_reruns_what_it_must_and_nothing_else(
        self, fake: Workspace, tmp_path: Path, file: str, key: str, value: object, stages: list[str]
    ) -> None:
        clone = fake.copy(tmp_path / "clone")
        clone.set(file, key, value)
        assert clone.executed() == (CHECK if file == P else []) + stages

    def test_a_methods_own_option_and_the_way_back(self, fake: Workspace, tmp_path: Path) -> None:
        clone = fake.copy(tmp_path / "clone")
        clone.set(P, "method", "pseudo_label")
        assert clone.executed() == CHECK + ALL[3:]
        clone.set(P, "methods.pseudo_label.alpha", 0.5)
        assert clone.executed() == CHECK + ALL[3:]
        clone.git("reset", "-q", "--hard")
        assert clone.executed() == []  # DVC remembers the run
        assert clone.metrics() == fake.metrics()

    @pytest.mark.parametrize(
        ("name", "stages"), [("datasets/digits/labels.csv", ALL[1:]), ("weights/other.pth", ALL[3:])]
    )
    def test_a_users_file(self, fake: Workspace, tmp_path: Path, name: str, stages: list[str]) -> None:
        clone = fake.copy(tmp_path / "clone")
        for content in ("one", "two"):
            (clone.folder / name).write_text(content)
            assert clone.executed() == stages

    @pytest.mark.parametrize(
        ("file", "stages"),
        [
            ("mlml/methods/pseudo_label.py", []),  # not the chosen method
            ("mlml/methods/a_new_one.py", []),
            ("mlml/commands/check.py", []),
            ("mlml/methods/an.py", ALL[3:]),
            ("mlml/methods/shared/losses.py", ALL[3:]),
            ("mlml/training/a_new_file.py", ALL[3:]),
            ("mlml/plots.py", ALL[5:]),
            ("mlml/corruption.py", ALL[2:]),
            ("mlml/datasets/readers/a_new_one.py", ALL[1:]),
            ("mlml/images/decoding.py", ALL[1:]),
            ("mlml/core/files.py", ALL),
        ],
    )
    def test_edited_code_reruns_what_imports_it(
        self, fake: Workspace, tmp_path: Path, file: str, stages: list[str]
    ) -> None:
        """With what follows, since the stages that only pretend always give another output."""
        clone = fake.copy(tmp_path / "clone")
        with (clone.folder / file).open("a") as code:
            code.write("\n# edited\n")
        assert clone.executed() == stages


# The method's detector fires, and draws, in the run's two epochs.
FIRST = {"setting": "ppl_06", "method": "pseudo_label", "train.epochs": 2, "train.lr": 1e-3}
FIRST |= {"methods.pseudo_label.start_epoch": 0, "methods.pseudo_label.d": 0.5}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A clone after its first run, at a reduced size."""
    workspace = Workspace(tmp_path_factory.mktemp("real"))
    changes = [word for key, value in FIRST.items() for word in ("-S", f"{key}={value}")]
    assert workspace.executed("exp", "run", "-n", "first", *changes) == CHECK + ALL
    workspace.commit()
    return workspace


@pytest.mark.xdist_group("run")
class TestRun:
    def test_everything_a_user_is_promised_is_there(self, real: Workspace) -> None:
        test = json.loads((real.folder / "metrics/test.json").read_text())
        assert 0 < test["mAP"] <= 100
        assert test["images"] == 30
        assert test["classes"] == 10
        assert {"validation_mAP", "best_epoch", "classes_without_positives"} <= test.keys()
        assert json.loads((real.folder / "metrics/labels.json").read_text())["images"] == 40
        history = pd.read_csv(real.folder / "metrics/history.tsv", sep="\t")
        assert history.columns.tolist() == ["epoch", "loss", "validation_mAP"]
        per_class = pd.read_csv(real.folder / "metrics/per_class.tsv", sep="\t")
        assert per_class["AP"].mean() == pytest.approx(test["mAP"], abs=1e-3)
        figures = {path.name for path in (real.folder / "figures").iterdir()}
        assert figures == {"average_precision.png", "learning_curve.png", "labels.png", "trajectories.png"}
        assert real.git("status", "--porcelain") == ""
        with safe_open(real.folder / "model/weights.safetensors", "np") as file:
            about = json.loads(file.metadata()["mlml"])
        assert {"backbone", "classes", "image_size", "upright", "method", "validation_mAP"} <= about.keys()
        assert (about["image_size"], about["upright"], len(about["classes"])) == (64, False, 10)

    def test_another_data_set_and_the_way_back(self, real: Workspace, tmp_path: Path) -> None:
        """voc2012 from a small archive in the official layout, at a file: address."""
        real.set(VOC, "archives", [small_voc(tmp_path)])
        real.set(VOC, "training", {"backbone": "test_resnet", "weights": "none", "epochs": 1})
        real.set(VOC, "images.image_size", 48)
        real.set(P, "dataset", "voc2012")
        assert real.executed("repro", "corrupt") == CHECK + ALL[:3]
        labels = json.loads((real.folder / "metrics/labels.json").read_text())
        assert (labels["images"], labels["classes"]) == (16, 20)
        # The archive is not needed again, whatever makes the stage run.
        (tmp_path / "VOCtrainval_11-May-2012.tar").unlink()
        code = real.folder / "mlml/core/params.py"
        code.write_text(code.read_text() + "\n# edited\n")
        assert "download" in real.executed("repro", "download")
        real.git("checkout", "-q", "mlml")
        real.set(P, "dataset", "digits")
        assert real.executed() == CHECK  # DVC remembers the others
        real.git("reset", "-q", "--hard")

    def test_coco_from_archives_and_kept_encoded(self, real: Workspace, tmp_path: Path) -> None:
        real.set(COCO, "archives", small_coco(tmp_path))
        real.set(COCO, "training", {"backbone": "test_resnet", "weights": "none", "epochs": 1})
        real.set(COCO, "images.image_size", 48)
        real.set(P, "dataset", "coco2014")
        assert real.executed("repro", "evaluate") == CHECK + ALL[:5]
        test = json.loads((real.folder / "metrics/test.json").read_text())
        assert (test["images"], test["classes"]) == (11, 80)  # one has no annotation
        real.git("reset", "-q", "--hard")

    def test_what_must_be_brought_by_hand_is_said_first(self, real: Workspace) -> None:
        real.set(NUSWIDE, "training", {"backbone": "test_resnet", "weights": "none", "epochs": 1})
        real.set(NUSWIDE, "images.image_size", 48)
        real.set(P, "dataset", "nuswide")
        done = real.run("dvc", "repro")
        assert done.returncode != 0 and "Traceback" not in done.stdout
        assert "Running stage 'download'" in done.stdout and "Running stage 'prepare'" not in done.stdout
        for words in ("datasets/nuswide/images/", "datasets/nuswide/nus_wid_data.csv", "NUS-WIDE.html"):
            assert words in done.stdout
        small_nuswide(real.folder / "datasets/nuswide")
        # What comes next is for other data sets, too.
        assert real.executed("repro", "corrupt") == ALL[:3]
        assert json.loads((real.folder / "metrics/labels.json").read_text())["classes"] == 81
        real.git("reset", "-q", "--hard")
        shutil.rmtree(real.folder / "datasets/nuswide/images")

    @pytest.mark.parametrize(("change", "lines"), BAD, ids=[row[0] for row in BAD])
    def test_a_wrong_value_is_said_before_anything_runs(self, real: Workspace, change: str, lines: list[str]) -> None:
        done = real.run("dvc", "exp", "run", *(word for each in change.split() for word in ("-S", each)))
        assert done.returncode != 0
        assert done.stdout.count("Running stage") == 1 and "Traceback" not in done.stdout
        for line in lines:
            assert line in done.stdout
        # DVC may leave git's index in a state in which git takes params.yaml for unchanged.
        assert real.git("status", "--porcelain") == " M params.yaml\n"
        real.git("restore", "params.yaml")
        assert real.git("status", "--porcelain") == ""

    def test_a_setting_that_observes_nothing_is_said_when_the_labels_are_known(self, real: Workspace) -> None:
        done = real.run("dvc", "exp", "run", "-S", "setting=pol_001")
        assert done.returncode != 0 and "Traceback" not in done.stdout
        assert "corrupt: setting: pol_001 observes none of the 10 labels of any image" in done.stdout
        real.git("reset", "-q", "--hard")

    def test_a_data_set_that_is_not_in_a_queued_experiments_copy(self, real: Workspace) -> None:
        folder = real.folder / "datasets/mine"
        shutil.copytree(real.folder / "datasets/digits", folder)
        (folder / "labels.csv").write_text("image,split,a\n")
        done = real.run("dvc", "exp", "run", "--temp", "-S", "dataset=mine")
        assert done.returncode != 0 and "Traceback" not in done.stdout
        assert "check: 2 files, as datasets/mine/dataset.yaml, are not in the copy of the project" in done.stdout
        assert "Run `dvc add datasets/mine/labels.csv`, `git add datasets/mine`, and queue" in done.stdout
        shutil.rmtree(folder)
        assert real.git("status", "--porcelain") == ""

    @pytest.mark.parametrize(
        ("edit", "said"),
        [
            ("(P('params.yaml'), 'seed: 0', 'seed: 7')", "params.yaml: corrupt, from {'seed': 0} to {'seed': 7}"),
            ("(P('mlml/settings.py'), 'Missing', 'missing')", "mlml/settings.py"),
            ("(P('data/labels.csv'), 'test', 'train')", "data/labels.csv"),
        ],
    )
    def test_what_is_edited_while_a_stage_runs_is_not_recorded(
        self, real: Workspace, tmp_path: Path, edit: str, said: str
    ) -> None:
        """The edit is made by the stage itself, after it has read its input."""
        clone = real.copy(tmp_path / "clone")
        stage = clone.folder / "stages/corrupt.py"
        code = f"from pathlib import Path as P\n    file, old, new = {edit}\n    text = file.read_text()\n"
        code += "    file.unlink()\n    file.write_text(text.replace(old, new))\n"
        stage.write_text(stage.read_text().replace("    del labels\n", f"    del labels\n    {code}"))
        lock = (clone.folder / "dvc.lock").read_text()
        done = clone.run("dvc", "repro", "corrupt")
        assert done.returncode != 0 and "Traceback" not in done.stdout
        assert f"corrupt: changed while this stage ran: {said}. Its results are those of the old state" in done.stdout
        assert (clone.folder / "dvc.lock").read_text() == lock

    def test_stages_run_the_code_of_their_own_folder(self, real: Workspace) -> None:
        """Another copy of mlml, as an installed one, must not run unnoticed."""
        code = "import sys, os; sys.path.insert(0, os.getcwd()); import stages; os.chdir('stages'); stages.run(print)"
        done = real.run("python", "-c", code)
        assert done.returncode == 1
        assert "run stages as `python -m stages.<name>`" in done.stdout


@pytest.mark.xdist_group("run")
def test_experiments_are_reproducible_and_can_be_compared(real: Workspace, tmp_path: Path) -> None:
    clone = real.copy(tmp_path / "clone")
    first = clone.metrics()
    # Once more from nothing: the same files to the byte.
    model = (clone.folder / "model/weights.safetensors").read_bytes()
    assert clone.executed("repro", "--force", "--no-run-cache", "train") == CHECK + ALL[:4]
    assert (clone.folder / "model/weights.safetensors").read_bytes() == model
    assert clone.metrics() == first

    # A second learning rate, the winner by validation, and the same runs by `paper.runs`.
    clone.dvc("exp", "run", "--temp", "-n", "second", "-S", "train.lr=1e-4", "evaluate")
    show = clone.run("sh", "-c", "dvc exp show --csv --hide-workspace 2>/dev/null > ../experiments.csv")
    assert show.returncode == 0, show.stdout
    experiments = pd.read_csv(clone.folder / "../experiments.csv")
    assert experiments["train.lr"].tolist() == [1e-3, 1e-4]
    assert experiments["Experiment"].tolist()[1:] == ["second"]
    best = experiments.loc[experiments["validation_mAP"].idxmax()]
    winner = select(experiments).iloc[0]
    assert (winner["train.lr"], winner["mAP"], winner["candidates"]) == (best["train.lr"], best["mAP"], 2)

    runs = clone.run("python", "-m", "paper.runs", "../runs.csv", "-S", "train.lr=1e-3,1e-4")
    assert runs.returncode == 0, runs.stdout
    scores = ["train.lr", "validation_mAP", "best_epoch", "mAP"]
    rows = pd.read_csv(clone.folder / "../runs.csv")
    found, expected = (table.sort_values("train.lr")[scores].to_numpy().tolist() for table in (rows, experiments))
    assert found == expected

    clone.dvc("exp", "apply", "second")
    assert clone.get("params.yaml", "train.lr") == 1e-4
    changes = json.loads(clone.dvc("metrics", "diff", "--json", "--all"))
    assert changes["metrics/test.json"]["mAP"].keys() >= {"old", "new", "diff"}
    assert changes["metrics/labels.json"]["positives"]["diff"] == 0  # the same labels
    clone.dvc("plots", "diff", "HEAD", "workspace", "-o", "drawn")
    page = (clone.folder / "drawn/index.html").read_text()
    for title in ("training loss", "validation mAP", "average precision of each class", "trajectories.png"):
        assert title in page
    assert '"field": "epoch"' in page
    assert '"field": "step"' not in page  # the axis DVC takes for a file that nobody told it how to draw


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no git repository: nothing is committed here")
def test_the_committed_results_are_those_of_the_committed_code(tmp_path: Path) -> None:
    """dvc.lock names the code, the parameters and the data that the files in metrics/ were made with."""
    subprocess.run(["git", "clone", "-q", ROOT, tmp_path / "clone"], check=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["dvc", "repro", "--dry", "--allow-missing"],
        cwd=tmp_path / "clone",
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"run `dvc repro` and commit dvc.lock and metrics/\n{done.stderr}"
    assert done.stdout.count("didn't change, skipping") == len(CHECK + ALL), done.stdout
