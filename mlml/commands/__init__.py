"""The command line ``mlml``: `app` defines it, and a module beside it does the work of each command."""
