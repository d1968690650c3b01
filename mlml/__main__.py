"""``python -m mlml`` is another name of the command ``mlml``."""

from mlml.commands.app import main

if __name__ == "__main__":
    main()
