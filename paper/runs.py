"""``python -m paper.runs`` is another name of ``mlml grid``."""

import sys

from mlml.commands.app import main

if __name__ == "__main__":
    main(["grid", *sys.argv[1:]])
