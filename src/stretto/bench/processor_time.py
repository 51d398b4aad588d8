"""The processor time that workers take, which varies less on a busy machine than throughput does."""

from __future__ import annotations

import time
from collections.abc import Sequence

import psutil

from stretto.protocol.membership import Member


class ProcessorTime:
    """The processor time of the processes of members, from now on."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._processes = [psutil.Process(member.pid) for member in members]
        self._before = [_cpu_s(process) for process in self._processes]
        self._began_s = time.monotonic()

    def cpu_s(self) -> float:
        """Returns how many processor seconds they have taken together."""
        return sum(self._each())

    def share(self) -> float | None:
        """Returns the share of a core that the busiest has taken; None without any."""
        return max(self._each(), default=0.0) / (time.monotonic() - self._began_s) if self._processes else None

    def _each(self) -> list[float]:
        return [_cpu_s(process) - before for process, before in zip(self._processes, self._before, strict=True)]


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
