"""Script that limits the sending rate of its network namespace. It runs in a container, on Python 3.8 or later.

The limit is a token bucket (tc-tbf(8)). An rtnetlink(7) message sets it, because few images have `tc`.

Sources: linux/rtnetlink.h, linux/pkt_sched.h, and net/sched/sch_tbf.c.
"""

import os
import socket
import struct
import sys

_NEW_QDISC, _REQUEST, _ACK, _CREATE, _REPLACE = 36, 1, 4, 0x400, 0x100
_ERROR = 2
_ROOT, _HANDLE = 0xFFFFFFFF, 0x10000
_KIND, _OPTIONS = 1, 2
_PARAMETERS, _RATE64, _BURST = 1, 4, 6
_ETHERNET = 1
_MTU = 1514


def main() -> None:
    """Limit the interfaces eth*. The arguments are bytes per second, bytes of the bucket and bytes of the queue."""
    rate, burst, limit = map(int, sys.argv[1:4])
    names = sorted(name for _, name in socket.if_nameindex() if name.startswith("eth"))
    if not names:
        sys.exit("there is no interface eth0")
    for name in names:
        shape(socket.if_nametoindex(name), rate, burst, limit)


def shape(index: int, rate: int, burst: int, limit: int) -> None:
    """Limit the sending rate of an interface to `rate` bytes per second.

    At most `burst` bytes leave at once, and at most `limit` bytes wait. Raises OSError with the kernel's message.
    """
    no_peak = struct.pack("=BBHhHI", 0, 0, 0, 0, 0, 0)
    spec = struct.pack("=BBHhHI", 0, _ETHERNET, 0, 0, 0, min(rate, 0xFFFFFFFF))
    parameters = _attribute(_PARAMETERS, spec + no_peak + struct.pack("=III", limit, 0, _MTU))
    own = parameters + _attribute(_BURST, struct.pack("=I", burst)) + _attribute(_RATE64, struct.pack("=Q", rate))
    message = struct.pack("=BBHiIII", socket.AF_UNSPEC, 0, 0, index, _HANDLE, _ROOT, 0)
    message += _attribute(_KIND, b"tbf\0") + _attribute(_OPTIONS, own)
    flags = _REQUEST | _ACK | _CREATE | _REPLACE
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
        kernel.settimeout(10)
        kernel.send(struct.pack("=IHHII", 16 + len(message), _NEW_QDISC, flags, 1, 0) + message)
        answer = kernel.recv(65536)
    kind, code = struct.unpack_from("=H", answer, 4)[0], struct.unpack_from("=i", answer, 16)[0]
    if kind == _ERROR and code:
        raise OSError(-code, os.strerror(-code))


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + b"\0" * (-len(value) % 4)


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(error.strerror)
