"""Many runs on one prepared data set, several at a time on one device.

``python -m paper.runs RESULTS.csv -S setting=pol_02,spl -S method=an,bce -S seed=0,1 -S train.lr=1e-3,3e-4 --jobs 8``

Names and values are those of ``dvc exp run --queue -S``, and so are the numbers, with the same number of threads: a run
computes what the stages corrupt, train and evaluate do, but a process does one run after the other, and neither weights
nor figures are kept. On a CPU the jobs share the cores.

The data set is that of params.yaml, and its images must be there (``dvc repro prepare``). RESULTS.csv has the columns
of ``dvc exp show --csv`` that say what was run and what came out, for `mlml.commands.results`,
`mlml.commands.selection` and `paper.tables`. A row is written when its run is done, and a run that has a row is not
done again: an interrupted command goes on where it was.
"""

import argparse
import csv
import multiprocessing
import os
import signal
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import torch

from mlml import corruption
from mlml.evaluation import DECIMALS, evaluate
from mlml.images import store
from mlml.labels import table
from mlml.model import loader, predict
from mlml.model.classifier import LinearProbe
from mlml.training import experiment
from paper.features import Features
from paper.jobs import KEYS, Job, grid_of, jobs_of, read_grids

FOUND = ["validation_mAP", "best_epoch", "mAP", "seconds"]


FEATURES = Features()


def run(job: Job, data: Path) -> dict[str, Any]:
    """What the stages corrupt, train and evaluate compute: the cells `FOUND`."""
    started = time.monotonic()
    labels, prepared = table.read(data / "labels.csv"), store.open_images(data / "images")
    train = labels.labels[labels.rows("train")]
    kept = corruption.corrupt(train, job.setting, job.corrupt_seed)
    observed = corruption.check_observed(kept, job.setting)
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        represent = FEATURES.of(job)
        trained = experiment.train(prepared, labels, observed, job.plan, job.axes, job.options, represent=represent)
    test, model = loader.examples(prepared, labels, "test"), trained.classifier
    if job.plan.linear_probe:
        test, model = represent(model, test), LinearProbe(model)
    summary, _ = evaluate(labels.classes, test.labels, predict.predict(model, test))
    validation, seconds = round(trained.best.validation_mAP, DECIMALS), round(time.monotonic() - started, 1)
    return dict(zip(FOUND, (validation, trained.best.epoch, summary["mAP"], seconds), strict=True))


def _start(jobs: int) -> None:
    os.environ["TQDM_DISABLE"] = "1"  # the lines of many bars would mix
    torch.set_num_threads(max(1, torch.get_num_threads() // jobs))


def _work(job: Job, data: Path) -> tuple[Job, dict[str, Any] | str]:
    try:
        return job, run(job, data)
    except (ValueError, OSError, FloatingPointError) as error:
        return job, str(error)


def done(file: Path) -> set[tuple[str, ...]]:
    """The keys of the rows of `file`.

    Raises:
        ValueError: the file has other columns, or its last line is cut off.
    """
    if not file.exists():
        return set()
    text = file.read_text("utf-8")
    rows = csv.DictReader(text.splitlines())
    if rows.fieldnames != [*KEYS, *FOUND]:
        raise ValueError(f"{file} has other columns; name another file")
    if not text.endswith("\n"):
        raise ValueError(f"{file}: the last line is cut off; remove it")
    return {tuple(row[name] for name in KEYS) for row in rows}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m paper.runs", description=__doc__.partition("\n\n")[0])
    parser.add_argument("results", type=Path, metavar="RESULTS.csv")
    parser.add_argument("-S", dest="words", action="append", default=[], metavar="NAME=VALUE,...")
    parser.add_argument("--grid", type=Path, metavar="FILE", help="a YAML list of grids, each: name: [value, ...]")
    parser.add_argument("--data", type=Path, default=Path("data"), help="where labels.csv and images/ are; data")
    parser.add_argument("--jobs", type=int, choices=range(1, 129), metavar="N", default=1, help="runs at a time")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _stop)
    try:
        grids = read_grids(arguments.grid) if arguments.grid else [{}]
        words, known = grid_of(arguments.words), done(arguments.results)
        wanted = {job.key: job for grid in grids for job in jobs_of({**grid, **words}) if job.key not in known}
        failed = run_all([*wanted.values()], arguments.data, arguments.jobs, arguments.results)
    except (ValueError, OSError) as error:
        sys.exit(f"runs: {error}")
    except BrokenProcessPool:
        sys.exit(
            "runs: a process was killed, for want of memory perhaps; what is done is kept: again, with fewer --jobs"
        )
    if failed:
        sys.exit(f"runs: {failed} of {len(wanted)} runs have no result")


def _stop(number: int, frame: object) -> None:
    sys.exit("runs: stopped; what is done is kept")


def run_all(jobs: list[Job], data: Path, at_a_time: int, results: Path) -> int:
    """Do the runs, and add a row for each to `results` when it is done; returns how many failed.

    Raises:
        BrokenProcessPool: a process was killed.
    """
    failed, new = 0, not results.exists()
    spawn = multiprocessing.get_context("spawn")  # a GPU cannot be used in a forked process
    with (
        results.open("a", newline="", encoding="utf-8") as file,
        ProcessPoolExecutor(at_a_time, spawn, _start, (at_a_time,)) as pool,
    ):
        writer = csv.DictWriter(file, [*KEYS, *FOUND], lineterminator="\n")
        if new:
            writer.writeheader()
        try:
            waiting = [pool.submit(_work, job, data) for job in jobs]
            for number, finished in enumerate(as_completed(waiting), 1):
                job, found = finished.result()
                about = f"{number}/{len(jobs)} {' '.join(filter(None, job.key[:5]))}"
                if isinstance(found, str):
                    failed += 1
                    print(f"{about}: {found}", file=sys.stderr, flush=True)
                else:
                    writer.writerow(dict(zip(KEYS, job.key, strict=True)) | found)
                    file.flush()
                    print(f"{about}: validation {found['validation_mAP']:.2f}, test {found['mAP']:.2f}", flush=True)
        except BaseException:
            for child in multiprocessing.active_children():
                child.terminate()  # or it would train to its end, which nobody waits for
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return failed


if __name__ == "__main__":
    main()
