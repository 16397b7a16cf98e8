"""The command line. Each command has a module, which is imported when the command is called."""

import os
import signal


def main() -> None:
    """Run the command `runner`. Ctrl-C is handled before the imports, which take most of the time."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _leave)
    from runner.cli.app import run_command

    run_command()


def _leave(_number: int, _frame: object) -> None:
    """Exit at once. This handler acts only before anything is started, or after everything has ended."""
    os.write(2, b"interrupted\n")
    os._exit(130)
