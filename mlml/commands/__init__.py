"""The command ``mlml``: `app` is the terminal's side of it, and a module beside it does the work of each command."""
