"""Which files a command reads: those that end, and what a shell pipes in."""

from pathlib import Path

from mlml.datasets.files.regular_files import kind


def check_readable(file: Path) -> None:
    """Check that `file` is a file, or a pipe of the shell such as /dev/fd/63.

    Whoever reads a named pipe waits for a writer, perhaps for ever.

    Raises:
        ValueError: it is something else.
    """
    what = kind(file)
    if what and not (what == "a named pipe" and file.is_relative_to("/dev")):
        raise ValueError(f"{file} is {what}, not a file")
