"""`python -m runner` is the command `runner`."""

from runner.cli import main

main()
