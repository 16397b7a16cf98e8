"""Run the command `runner` as `python -m runner`."""

from runner.cli import main

main()
