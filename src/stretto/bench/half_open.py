"""A program that holds half-open connections: it connects to ports, says little or nothing, and stays.

It imports the standard library alone and is started by its path, so that it takes little from what it disturbs. It ends
after its time, or when its standard input does, and prints one line of JSON: how many connections it had at most, and
how many were cut by the other side, which it makes again. Only loopback addresses are accepted.
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import resource
import select
import socket
import sys
import time
from collections import deque
from contextlib import suppress

TICK_S = 0.05
OPENED_PER_TICK = 100
"""2,000 connections a second: all are made within seconds, and the program itself needs little of the processor."""
GREETING = b"\xff" + bytes(8) + b"\x7f\x03"
"""The beginning of a ZeroMQ greeting. Every other connection says it, the others say nothing."""
SPARE = 64
"""Descriptors that the program needs for itself."""

Address = tuple[str, int]


def connections_allowed() -> int:
    """Returns how many connections one process may hold here, after raising its limit of descriptors."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return (1 << 20 if hard == resource.RLIM_INFINITY else hard) - SPARE


class Strangers:
    """Connections to some ports; the n-th goes to the n-th port, in turn."""

    def __init__(self, targets: list[Address], count: int) -> None:
        self._targets = targets
        self._poll = select.epoll()
        self._open: dict[int, tuple[int, socket.socket]] = {}
        self._missing = deque(range(count))
        self.established: set[int] = set()
        self.established_most = 0
        self.cut = 0

    def connect_some(self) -> None:
        for _ in range(min(OPENED_PER_TICK, len(self._missing))):
            number = self._missing.popleft()
            made = socket.socket()
            made.setblocking(False)
            made.connect_ex(self._targets[number % len(self._targets)])
            self._open[made.fileno()] = (number, made)
            self._poll.register(made.fileno(), select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET)

    def watch(self, timeout_s: float) -> None:
        """Notes which connections were made and which were cut."""
        for fd, events in self._poll.poll(timeout_s):
            number, made = self._open[fd]
            if events & (select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR):
                self.cut += fd in self.established
                self.established.discard(fd)
                del self._open[fd]
                made.close()
                self._missing.append(number)
            elif fd not in self.established:
                self.established.add(fd)
                if number // len(self._targets) % 2:
                    with suppress(OSError):
                        made.send(GREETING)
        self.established_most = max(self.established_most, len(self.established))

    def close(self) -> None:
        for _, made in self._open.values():
            made.close()


def hold(targets: list[Address], count: int, seconds: float) -> Strangers:
    """Holds connections until the time is over or standard input ends."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    strangers = Strangers(targets, count)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not select.select([sys.stdin], [], [], 0)[0]:
        strangers.connect_some()
        strangers.watch(TICK_S)
        time.sleep(TICK_S)
    strangers.close()
    return strangers


def _target(text: str) -> Address:
    host, _, port = text.rpartition(":")
    if not ipaddress.ip_address(host).is_loopback:
        raise argparse.ArgumentTypeError(f"{host} is not a loopback address")
    return host, int(port)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("targets", type=_target, nargs="+", metavar="ADDRESS:PORT")
    asked = parser.parse_args()
    found = hold(asked.targets, asked.connections, asked.seconds)
    used = resource.getrusage(resource.RUSAGE_SELF)
    report = {
        "established_most": found.established_most,
        "cut": found.cut,
        "cpu_s": used.ru_utime + used.ru_stime,
    }
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
