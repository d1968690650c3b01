"""Ctrl-C, at any time of a stage: no traceback, and what is being written is finished."""

import os
import subprocess
import sys

import pytest

from tests.test_architecture import ROOT

RUN = """if True:
    import os, signal, sys
    def interrupt():
        os.kill(os.getpid(), signal.SIGINT)
    {code}
"""
IMPORTS = """
    sys.argv[0] = "-m"  # as while `python -m stages.train` imports the package
    os.environ["DVC_STAGE"] = "train"
    import stages
    interrupt()
    print("not reached")
"""
WORK = """
    import stages
    def main():
        try:
            interrupt()
            print("not reached")
        finally:
            interrupt()  # once more, while something is finished
            print("finished")
    sys.argv = ["stages/train.py"]
    stages.run(main)
"""


@pytest.mark.parametrize(("code", "out", "err"), [(IMPORTS, "", ""), (WORK, "finished\n", "train: interrupted\n")])
def test_interrupted(code: str, out: str, err: str) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "DVC_STAGE"}
    words = [sys.executable, "-c", RUN.format(code=code)]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, out, err)
