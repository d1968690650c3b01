"""A temporary clone of the project in which the real pipeline runs, at a reduced size."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
from copy import copy
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from PIL import Image

from mlml.datasets.readers import coco2014, nuswide, voc2012
from tests.datasets.files.test_archive_members import write_stored, write_tar, write_zip
from tests.test_architecture import ROOT

FAKE = f"""#!{sys.executable}
import os, pathlib, uuid, yaml
stage = yaml.safe_load(open("dvc.yaml"))["stages"][os.environ["DVC_STAGE"]]
for out in sum((stage.get(kind, []) for kind in ("outs", "metrics", "plots")), []):
    path = pathlib.Path(out if isinstance(out, str) else next(iter(out)))
    path = path if path.suffix else path / "file"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("" if "checked" in path.parts else uuid.uuid4().hex)
"""

CATEGORY_IDS = [number for number in range(1, 91) if number not in (12, 26, 29, 30, 45, 66, 68, 69, 71, 83)]  # COCO's
SMALL = {"images.options.train_images": 50, "images.options.test_images": 30, "training.epochs": 1}


class Workspace:
    """A clone of the working tree: what git tracks and what it would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, target)
        # A cache of its own, and no results that the project's own lock file speaks of.
        for name in ("dvc.lock", "metrics"):
            path = folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        (folder / "metrics").mkdir()
        for key, value in SMALL.items():
            self.set("datasets/digits/dataset.yaml", key, value)
        self.set("params.yaml", "method", "an")
        self.more: dict[str, str] = {}  # of the environment
        self.git("init", "-q")
        self.git("config", "user.name", "test")  # DVC asks for them, too
        self.git("config", "user.email", "test@localhost")
        self.commit()

    def fake_stages(self, code: str = FAKE) -> None:
        """From now on a stage runs `code`: it only writes its outputs, with a new content each time it runs.

        What runs is up to dvc.yaml alone, and a stage costs no import of torch.
        """
        file = self.folder / ".git/fake/python"
        file.parent.mkdir()
        file.write_text(code)
        file.chmod(0o755)

    def copy(self, folder: Path) -> "Workspace":
        """Another one in the same state, with a cache of its own."""
        shutil.copytree(self.folder, folder, symlinks=True)
        twin = copy(self)
        twin.folder, twin.more = folder, dict(self.more)
        return twin

    def git(self, *words: str) -> str:
        return subprocess.run(["git", *words], cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-qm", "state")

    def get(self, file: str, key: str) -> Any:
        value = yaml.safe_load((self.folder / file).read_text())
        for part in key.split("."):
            value = value[part]
        return value

    def set(self, file: str, key: str, value: Any) -> None:
        """Change one value of a YAML file."""
        path = self.folder / file
        whole = yaml.safe_load(path.read_text())
        *sections, last = key.split(".")
        section = whole
        for part in sections:
            section = section[part]
        section[last] = value
        path.write_text(yaml.safe_dump(whole, sort_keys=False))

    def metrics(self) -> dict[str, bytes]:
        """The files in metrics/ by name."""
        return {path.name: path.read_bytes() for path in (self.folder / "metrics").iterdir()}

    def environment(self) -> dict[str, str]:
        folders = [self.folder / ".git/fake", Path(sys.executable).parent, os.environ["PATH"]]
        own = {
            "PATH": os.pathsep.join(map(str, folders)),
            "DVC_SITE_CACHE_DIR": str(self.folder / ".git/dvc"),  # else DVC leaves a folder a clone in /var/tmp
            "DVC_TEST": "1",
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "200",
        }
        return {**os.environ, **own, **self.more}

    def run(self, *words: str, seconds: float = 200) -> subprocess.CompletedProcess[str]:
        """Run a command of this interpreter's environment in the clone; standard error is part of the output."""
        return subprocess.run(
            words,
            cwd=self.folder,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
        )

    def dvc(self, *words: str) -> str:
        done = self.run("dvc", *words)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def executed(self, *words: str) -> list[str]:
        """The stages that `dvc repro`, or another dvc command, really runs."""
        return re.findall(r"Running stage '(\w+)'", self.dvc(*(words or ("repro",))))


def photograph(random: np.random.RandomState) -> bytes:
    file = io.BytesIO()
    Image.fromarray(random.randint(0, 256, (30, 40, 3), np.uint8)).save(file, "JPEG")
    return file.getvalue()


def entry(path: Path) -> dict[str, Any]:
    """The entry of `archives` for a file."""
    data = path.read_bytes()
    return {"file": path.name, "urls": [path.as_uri()], "bytes": len(data), "sha256": sha256(data).hexdigest()}


def small_voc(folder: Path) -> dict[str, Any]:
    """Make a small archive in the official layout; returns it as an entry of `archives`."""
    random, files = np.random.RandomState(0), {}
    for part, count in (("train", 20), ("val", 12)):
        ids = [f"2008_{part[0]}{number:05d}" for number in range(count)]
        files |= {f"JPEGImages/{image}.jpg": photograph(random) for image in ids}
        for number, name in enumerate(voc2012.CLASSES):
            lines = [f"{image} {' 1' if (i + number) % 5 == 0 else '-1'}\n" for i, image in enumerate(ids)]
            files[f"ImageSets/Main/{name}_{part}.txt"] = "".join(lines).encode()
    path = write_tar(folder / voc2012.ARCHIVE, {f"{voc2012.ROOT}/{name}": data for name, data in files.items()})
    return entry(path)


def small_coco(folder: Path) -> list[dict[str, Any]]:
    """Make small archives in the official layout; returns them as the entries of `archives`.

    20 train and 12 val images; two and one of them have no annotation.
    """
    random = np.random.RandomState(0)
    files: dict[str, dict[str, bytes]] = {coco2014.ANNOTATIONS: {}}
    for (part, archive), count in zip(coco2014.PHOTOGRAPHS.items(), (20, 12), strict=True):
        images, annotations = [], []
        for number in range(count):
            image = 9 + 37 * number**2  # of one to five digits
            images.append({"id": image, "file_name": f"COCO_{part}_{image:012d}.jpg"})
            found = [one for i, one in enumerate(CATEGORY_IDS) if (i + number) % 8 == 0 and number % 10 != 3]
            annotations += [{"image_id": image, "category_id": one, "bbox": [0, 0, 9, 9]} for one in found]
            files.setdefault(archive, {})[f"{part}/{images[-1]['file_name']}"] = photograph(random)
        categories = [{"id": one, "name": f"class {one}"} for one in CATEGORY_IDS]
        whole = {"images": images, "annotations": annotations, "categories": categories}
        files[coco2014.ANNOTATIONS][f"annotations/instances_{part}.json"] = json.dumps(whole).encode()
    entries = []
    for name, members in files.items():
        write = write_zip if name == coco2014.ANNOTATIONS else write_stored
        entries.append(entry(write(folder / name, members)))
    return entries


def small_nuswide(folder: Path) -> None:
    """Bring a small NUS-WIDE, as csv, to its own folder: 20 train and 12 val images, two of each unlabelled."""
    random = np.random.RandomState(0)
    (folder / "images").mkdir()
    rows = ["filepath,label,split_name"]
    for part, count in (("train", 20), ("val", 12)):
        for number in range(count):
            path = f"images/{number}_{part}_m.jpg"
            (folder / path).write_bytes(photograph(random))
            names = [name for i, name in enumerate(nuswide.CLASSES) if number > 1 and (i + number) % 8 == 0]
            rows.append(f'{path},"{names}",{part}')
    (folder / nuswide.CSV).write_text("\n".join([*rows, ""]))
