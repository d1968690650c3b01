"""The walk in docs/your-data.md, done as it is written."""

import re
from pathlib import Path

import pytest
import yaml

from mlml import datasets
from mlml.core.params import parse, parse_options
from mlml.datasets.readers import coco, folder, lists, voc_xml
from tests.test_architecture import ROOT
from tests.workspace import Workspace

PAGE = (ROOT / "docs/your-data.md").read_text()
WALK, _, REST = PAGE.partition("## What 0 and -1 mean")
READERS = {"folder": folder, "lists": lists, "coco": coco, "voc_xml": voc_xml}


def steps() -> list[tuple[str, str]]:
    """(path, content) of files to write, and ("", commands with their output), in order."""
    pattern = r"`([\w/.]+)`:\n\n```\w*\n(.*?)```|```console\n(.*?)```"
    return [(path, content or console) for path, content, console in re.findall(pattern, WALK, re.DOTALL)]


def commands(console: str) -> list[tuple[str, str]]:
    """(command, the output it should have)."""
    return [(command, output) for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", console, re.MULTILINE)]


def says(shown: str, real: str) -> bool:
    """Whether `shown` is what was really printed; three dots stand for anything."""
    pattern = re.escape(shown.strip()).replace(r"\.\.\.", "(?s:.*)")
    return re.fullmatch(pattern, real.strip()) is not None


def test_the_walk(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    ran = 0
    for path, content in steps():
        if path:
            (workspace.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (workspace.folder / path).write_text(content)
            continue
        for command, output in commands(content):
            # Not the installed one: it is of another folder.
            done = workspace.run("bash", "-c", re.sub(r"^mlml ", "python -m mlml ", command))
            assert done.returncode == 0, done.stdout
            assert says(output, done.stdout), f"$ {command}\n{done.stdout}"
            ran += 1
    assert ran == 5
    assert workspace.get("metrics/test.json", "known_share") == 1


@pytest.mark.parametrize("text", re.findall(r"```yaml\n(images:.*?)```", PAGE, re.DOTALL))
def test_examples_of_options_are_valid(text: str) -> None:
    layout = parse(datasets.Layout, yaml.safe_load(text)["images"], "images")
    assert parse_options(READERS[layout.reader].read, layout.options, "images.options")


def test_says() -> None:
    assert says("a ... c\n...\nd\n", "a b c\nx\ny\nd")
    assert not says("a ... c", "a b d")
