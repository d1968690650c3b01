"""The command line itself: help, wrong usage, errors and exit statuses. What commands do is tested beside this."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from mlml.commands.app import main
from tests.commands.conftest import Ended
from tests.core.test_progress import Terminal
from tests.test_architecture import ROOT

COMMANDS = ["check", "grid", "results", "select", "table", "statistics"]
SLOW = {"torch", "timm", "sklearn", "pandas", "numpy", "matplotlib", "rich", "dvc"}
RESULTS = ROOT / "paper/results/photos_64_lr.csv"


def test_help_is_answered_before_anything_slow_is_imported() -> None:
    calls = [[], ["--version"], *([name, "--help"] for name in COMMANDS), ["check", "--wrong"]]
    code = f"""if True:
        import sys
        from mlml.commands.app import main
        for words in {calls}:
            try:
                main(words)
            except SystemExit:
                pass
        print(sorted({SLOW} & sys.modules.keys()), file=sys.stderr)"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == "[]"
    assert [name for name in COMMANDS if f"Usage: mlml {name} " not in done.stdout] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example_whose_options_exist(name: str, mlml: Callable[..., Ended]) -> None:
    text = mlml(name, "--help").out
    lines = re.findall(rf"\bmlml ({name}.*)", text.partition("Example:")[2])
    assert lines
    options = set(re.findall(r"(?<!\S)--?[\w-]+", " ".join(lines)))
    assert options <= set(re.findall(r"(?<!\S)--?[\w-]+", text.partition("Example:")[0]))


def test_the_list_of_commands(mlml: Callable[..., Ended]) -> None:
    listed = re.findall(r"^  (\w+)  +(.+)$", mlml("--help").out.partition("Commands:")[2], re.MULTILINE)
    assert [name for name, _ in listed] == COMMANDS
    assert all(text.endswith(".") and not text.endswith("..") for _, text in listed)


def test_it_is_installed_under_its_name() -> None:
    scripts = re.search(r'\[project.scripts\]\nmlml = "([\w.]+):(\w+)"', (ROOT / "pyproject.toml").read_text())
    assert scripts
    assert getattr(import_module(scripts.group(1)), scripts.group(2)) is main
    done = subprocess.run([sys.executable, "-m", "mlml", "--version"], cwd=ROOT, capture_output=True, text=True)
    assert re.fullmatch(r"mlml \d+\.\d+\.\d+\n", done.stdout), done.stderr


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["no-such"], "No such command"),
        (["check"], "Missing argument"),
        (["check", "x", "y"], "unexpected extra argument"),
        (["grid", "runs.csv", "--jobs", "0"], "--jobs"),
        (["table", "runs.csv", "--update", "page"], "--update"),
        (["statistics", "voc2012"], "must be DATASET=LABELS.csv"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_wrong_usage(words: list[str], line: str, mlml: Callable[..., Ended]) -> None:
    ended = mlml(*words)
    assert (ended.status, ended.out) == (2, "")
    assert line in ended.err
    assert ended.err.isascii()  # no boxes


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["check", "mine"], "mine is no folder in {here}; a data set is a folder with a dataset.yaml"),
        (["grid", "runs.csv"], "{here} is no project folder: there is no params.yaml; go to your clone of the project"),
        (
            ["statistics", "voc2012=x"],
            "{here} is no project folder: there is no paper/statistics.csv; go to",
        ),
        (["results", "runs.csv"], "No such file or directory: 'runs.csv'"),
        (["select", "empty.csv"], "empty.csv: no table as `dvc exp show --csv` prints it; No columns to parse"),
        (["table", str(RESULTS), "empty.csv"], "empty.csv: no table as"),
        (["results", "photo.csv"], "photo.csv: no table as"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_an_error_is_one_line(
    words: list[str], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mlml: Callable[..., Ended]
) -> None:
    (tmp_path / "empty.csv").touch()
    (tmp_path / "photo.csv").write_bytes(b"\xff\xd8\xff\xe0")
    monkeypatch.chdir(tmp_path)
    ended = mlml(*words)
    assert (ended.status, ended.out, ended.err.count("\n")) == (1, "", 1)
    assert ended.err.startswith(f"mlml {words[0]}: {line.format(here=tmp_path)}")


def test_debug_gives_the_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mlml: Callable[..., Ended]) -> None:
    for options, variable in ((["--debug"], None), ([], "1")):
        monkeypatch.delenv("MLML_TRACEBACK", raising=False)
        if variable:
            monkeypatch.setenv("MLML_TRACEBACK", variable)
        with pytest.raises(ValueError, match="is no folder"):
            main([*options, "check", str(tmp_path / "mine")])
        assert os.environ["MLML_TRACEBACK"] == "1"  # so that other processes show theirs


def test_ctrl_c(monkeypatch: pytest.MonkeyPatch, mlml: Callable[..., Ended]) -> None:
    monkeypatch.setattr("mlml.commands.results.read", lambda source: signal.raise_signal(signal.SIGINT))
    assert mlml("results", RESULTS) == (130, "", "mlml results: interrupted\n")


def test_nothing_is_waited_for_in_a_terminal(monkeypatch: pytest.MonkeyPatch, mlml: Callable[..., Ended]) -> None:
    monkeypatch.setattr("sys.stdin", Terminal())
    ended = mlml("results")
    assert (ended.status, "nothing is piped in" in ended.err) == (2, True)


def test_a_reader_that_has_gone() -> None:
    """As in `mlml select runs.csv | head -0`."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "mlml", "select", RESULTS], cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, text=True
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")
