"""The command line: one small file a command. What a command needs is imported when it is called."""

import os
import signal


def main() -> None:
    """Run the command `runner`; Ctrl-C is taken care of first, before the imports, which take most of the time."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _leave)
    from runner.cli.app import run_command

    run_command()


def _leave(_number: int, _frame: object) -> None:
    """End at once, since nothing was started yet, or all has ended."""
    os.write(2, b"interrupted\n")
    os._exit(130)
