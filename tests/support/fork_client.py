"""Stands where `python` would: `fork_client.py SOCKET PYTHON WORDS...`; see fork_server.py."""

import json
import os
import signal
import socket
import sys

PASSED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")


def main() -> None:
    """Ask for a child, pass signals on to it, and end as it ends."""
    place, python, *words = sys.argv[1:]
    if not words or (words[0].startswith("-") and words[0] not in ("-u", "-m", "-c")):
        os.execv(python, [python, *words])  # noqa: S606
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(place)
    numbers = [getattr(signal, name) for name in PASSED]
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)  # one that is passed on within the request would spoil it
    for number in numbers:
        # The runner takes SIGINT also if a shell ignores it, as for jobs in the background.
        if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: connection.send(bytes([number])))
    own = os.path.join(os.path.dirname(place), "python")  # noqa: PTH118, PTH120 - pathlib takes longer to import than all else
    asked = {"argv": words, "cwd": os.getcwd(), "env": dict(os.environ), "python": own}  # noqa: PTH109
    text = json.dumps(asked).encode()
    socket.send_fds(connection, [len(text).to_bytes(8, "little")], [0, 1, 2])
    connection.sendall(text)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    answer = connection.recv(4)
    status = int.from_bytes(answer, "little") if answer else signal.SIGKILL
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


main()
