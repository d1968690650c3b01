"""The state of a run in a file: whole, of this run, or not there."""

import errno
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from pickle import PicklingError
from typing import Any

import pytest
import torch

from mlml.checkpoints.checkpoint import Checkpoint, others


@pytest.fixture
def checkpoint(tmp_path: Path) -> Iterator[Checkpoint]:
    made = Checkpoint(tmp_path / "kept", "key")
    yield made
    made.complete("")  # waits for the writer


def state(epoch: int) -> dict[str, Any]:
    return {"epoch": epoch, "plane": torch.full((3, 2), epoch + 0.5), "lists": [[1, 2.5], (None, "text")]}


def saved(checkpoint: Checkpoint, epoch: int) -> Path:
    checkpoint.save(state(epoch))
    checkpoint.wait()
    return checkpoint.path


def test_what_is_loaded_was_saved(checkpoint: Checkpoint) -> None:
    assert checkpoint.load() is None
    assert checkpoint.kept() == "no epoch is kept"
    for epoch in (1, 2):
        saved(checkpoint, epoch)
    loaded = Checkpoint(checkpoint.path.parent, "key").load()
    assert torch.equal(loaded.pop("plane"), state(2)["plane"])
    assert loaded == {"epoch": 2, "lists": [[1, 2.5], [None, "text"]]}
    assert checkpoint.kept() == "what was trained up to epoch 2 is kept; run the same command to resume"
    assert os.listdir(checkpoint.path.parent) == ["key.checkpoint"]


def test_a_complete_run_stays_until_its_result_is_safe(checkpoint: Checkpoint) -> None:
    """Whoever started the run may be killed before it has taken the result over."""
    folder, said = checkpoint.path.parent, []
    saved(checkpoint, 2)
    checkpoint.complete("the hash of its result")
    for safe in (False, True):
        later = Checkpoint(folder, "later")
        with later.held(lambda result, safe=safe: said.append(result) or safe):
            assert Checkpoint(folder, "key").load() is None if safe else Checkpoint(folder, "key").load()["epoch"] == 2
    assert said == ["the hash of its result"] * 2
    assert os.listdir(folder) == []


def test_what_changes_after_the_call_is_not_saved(checkpoint: Checkpoint) -> None:
    given = state(1)
    checkpoint.save(given)
    given["plane"].zero_()
    checkpoint.wait()
    loaded = checkpoint.load()
    assert loaded["plane"].tolist() == [[1.5, 1.5]] * 3


def test_another_run_has_another_file(checkpoint: Checkpoint) -> None:
    other = Checkpoint(checkpoint.path.parent, "other")
    saved(other, 1)
    assert checkpoint.load() is None
    assert others(checkpoint) == f"unfinished runs keep 0 MB in {other.path.parent}: 1"
    assert others(other) is None
    # What a killed process was writing belongs to that run.
    (other.path.parent / f".{other.path.name}").write_text("half")
    assert others(checkpoint) == f"unfinished runs keep 0 MB in {other.path.parent}: 1"
    assert others(other) is None


@pytest.mark.parametrize("damage", ["cut", "empty", "bit", "name"])
def test_a_damaged_file_is_said_and_removed(
    checkpoint: Checkpoint, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    path = saved(checkpoint, 1)
    data = bytearray(path.read_bytes())
    if damage == "bit":
        data[data.index(state(1)["plane"].numpy().tobytes())] ^= 1
    if damage == "name":  # of a member, in the directory at the end
        data[data.rindex(b"data.pkl")] |= 0x80
    path.write_bytes({"cut": data[:-10], "empty": b""}.get(damage, data))
    assert checkpoint.load() is None
    assert capsys.readouterr().err == f"{path} is damaged: it is removed, and training starts anew\n"
    assert not path.exists()


@pytest.mark.parametrize("content", [[1], {"plane": torch.zeros(1)}, {"epoch": "1"}, torch.zeros(1)])
def test_a_file_that_holds_no_state(
    checkpoint: Checkpoint, capsys: pytest.CaptureFixture[str], content: object
) -> None:
    checkpoint.path.parent.mkdir()
    torch.save(content, checkpoint.path)
    assert checkpoint.load() is None
    assert "is damaged: it is removed, and training starts anew" in capsys.readouterr().err


def test_a_state_that_cannot_be_written_is_an_error(checkpoint: Checkpoint) -> None:
    saved(checkpoint, 1)
    checkpoint.save({"epoch": 2, "unwritable": (lambda: None)})
    with pytest.raises((AttributeError, PicklingError)):
        checkpoint.wait()
    loaded = checkpoint.load()
    assert loaded is not None
    assert loaded["epoch"] == 1


def test_a_full_disk_keeps_what_was_there(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved(checkpoint, 1).read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    checkpoint.save(state(2))
    with pytest.raises(OSError) as caught:
        checkpoint.save(state(3))
    assert re.fullmatch(
        rf"No space left on device: '{checkpoint.path}' \([\d,]+ MB are free\); make room; "
        "what was trained up to epoch 1 is kept; run the same command to resume",
        str(caught.value),
    )
    assert checkpoint.path.read_bytes() == before
    assert os.listdir(checkpoint.path.parent) == ["key.checkpoint"]


def test_a_file_that_cannot_grow(tmp_path: Path) -> None:
    """The writing itself fails, in the middle of the tensors: as on a full disk, by the system's limit for a file."""
    code = """if True:
        import pathlib, resource, sys, torch
        from mlml.checkpoints.checkpoint import Checkpoint
        checkpoint = Checkpoint(pathlib.Path(sys.argv[1]), "key")
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
        checkpoint.save({"epoch": 1, "plane": torch.zeros(100_000)})
        checkpoint.save({"epoch": 2, "plane": torch.zeros(1_000_000)})
        try:
            checkpoint.wait()
        except OSError as error:
            print(error)
        print(checkpoint.load()["epoch"])
        """
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True)
    message, epoch = done.stdout.splitlines()
    assert message.startswith(
        f"File too large: '{tmp_path}/key.checkpoint'; raise the limit of a file's size (ulimit -f)"
    )
    assert "; what was trained up to epoch 1 is kept" in message
    assert epoch == "1"
    assert done.stderr == ""
    assert os.listdir(tmp_path) == ["key.checkpoint"]


def end(checkpoint: Checkpoint, epoch: int, error: BaseException) -> None:
    """A run that ends with this error while it saves this epoch."""
    with checkpoint.held():
        checkpoint.save(state(epoch))
        raise error


def test_ctrl_c_waits_for_the_file_and_says_what_is_kept(checkpoint: Checkpoint) -> None:
    with pytest.raises(KeyboardInterrupt, match="what was trained up to epoch 4 is kept"):
        end(checkpoint, 4, KeyboardInterrupt())
    assert os.listdir(checkpoint.path.parent) == ["key.checkpoint"]


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "FloatingPointError"])
def test_a_file_that_is_being_written_is_finished_first(tmp_path: Path, error: str) -> None:
    """However the run ends; a thread that is still in torch when the process ends would crash it."""
    code = """if True:
        import os, pathlib, sys, time, torch
        from mlml.checkpoints.checkpoint import Checkpoint
        checkpoint, fsync = Checkpoint(pathlib.Path(sys.argv[1]), "key"), os.fsync
        os.fsync = lambda descriptor: (time.sleep(0.3), fsync(descriptor))
        try:
            with checkpoint.held():
                checkpoint.save({"epoch": 5, "plane": torch.zeros(3_000_000)})
                raise getattr(__builtins__, sys.argv[2])
        except BaseException as error:
            sys.exit(f"{type(error).__name__} {error}; {checkpoint.kept()}")
        """
    done = subprocess.run([sys.executable, "-c", code, tmp_path, error], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith(error)
    assert done.stderr.endswith("what was trained up to epoch 5 is kept; run the same command to resume\n")
    assert os.listdir(tmp_path) == ["key.checkpoint"]


def test_a_run_that_cannot_write_its_results_says_what_is_kept(checkpoint: Checkpoint) -> None:
    said = r"^No space left on device: 'history' \(.* MB are free\); make room; what was trained up to epoch 4 is kept"
    with pytest.raises(OSError, match=said):
        end(checkpoint, 4, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "history"))


def test_a_fault_before_anything_is_kept_stays_what_it_is(checkpoint: Checkpoint) -> None:
    with pytest.raises(ConnectionError, match=r"^no weights from the hub$"), checkpoint.held():
        raise ConnectionError("no weights from the hub")


def test_the_linear_layer_alone_is_kept_too(checkpoint: Checkpoint) -> None:
    saved(checkpoint, 0)
    assert checkpoint.kept() == "what was trained of the linear layer is kept; run the same command to resume"


def test_two_processes_do_not_train_the_same_run(checkpoint: Checkpoint) -> None:
    """The second is refused while the first runs, and may go on when it was killed."""
    code = """if True:
        import pathlib, sys, time
        from mlml.checkpoints.checkpoint import Checkpoint
        with Checkpoint(pathlib.Path(sys.argv[1]), "key").held():
            print("held", flush=True)
            time.sleep(600)
        """
    words = [sys.executable, "-c", code, checkpoint.path.parent]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(
            OSError, match=r"key\.lock: another process is training this run; wait until it has ended and"
        ):
            end(checkpoint, 1, KeyboardInterrupt())
        with Checkpoint(checkpoint.path.parent, "other").held():
            pass  # another run may
        process.kill()
        process.wait()
    with checkpoint.held():
        saved(checkpoint, 1)
    assert os.listdir(checkpoint.path.parent) == ["key.checkpoint"]


def test_a_file_that_another_run_is_just_removing(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    gone, there = checkpoint.path.parent / ".gone.checkpoint", saved(Checkpoint(checkpoint.path.parent, "there"), 1)
    monkeypatch.setattr(Path, "glob", lambda *given: [gone, there])
    assert others(checkpoint) == f"unfinished runs keep 0 MB in {gone.parent}: 1"
