"""The machines of sponge.txt 6.1: virtual machines of 4 cores and functions of one, when they are there, what their
links take, and what states cost that move between them.

A core is a worker. A state is encoded and decoded by one thread of each machine: that explains both times in 6.3
with one number (13 s for 2.4 GB and 35 s for 7 GB on five machines: 13 ns per byte each way). Partial states are those
of one core. A transient core does what an ordinary one does (rho is 1; the paper names no number).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stretto.actors.instance import Instance
from stretto.actors.keyed_twins import GiveKeys, TakeKeys
from stretto.actors.twins import GiveBack, TakeBack
from stretto.actors.work import Bequeath
from stretto.protocol.bursts import GivenBack, Redirected, Returned
from stretto.protocol.channels import Data
from stretto.protocol.frames import Frame
from stretto.protocol.handover import Bequest
from stretto.simulator.engine.cluster import SimulatedCluster
from stretto.simulator.experiments.sponge.patterns import SECOND_NS
from stretto.simulator.experiments.sponge.queries import Group, Meter
from stretto.state import MapState

CORES = 4
VM_STARTS_S = (29.0, 34.0)
"""25 to 30 s for the machine, and 4 for its runtime."""
FUNCTION_STARTS_S = (0.3, 0.75)
RESCHEDULED_S = 2.8
"""What it takes until migrated tasks are there, besides their states (6.3, the router operator)."""
NOTICED_S = 1.0
"""The ways that the paper compares scale so long after the burst began (figure 10)."""
VM_BYTES_PER_S, FUNCTION_BYTES_PER_S = 1.25e9, 12.5e6
ENCODE_NS_PER_BYTE = 13.0
EVENT_BYTES = 100.0
OTHER_NS = 20_000
"""What any run costs besides its rows (`stretto bench path`)."""
OUTSIDE = "outside"


def is_machine(node: str) -> bool:
    """Whether a node is a virtual machine, and not a function."""
    return node.startswith("vm")


def packed_bytes(keys: int) -> int:
    """Returns the size of a state of so many keys, as twins give it back."""
    function = Group(Meter(), 0, 1)
    function.kept = MapState(combine=int.__add__)
    for key in range(keys):
        function.kept[(key + 1) << 32] = 1
    return len(function.discipline.surrender(function) or b"")


PACKED_EMPTY = packed_bytes(0)
PACKED_KEY = (packed_bytes(1_000) - PACKED_EMPTY) / 1_000


@dataclass(frozen=True)
class Sizes:
    """What a row stands for: events, and bytes of state in each window."""

    row_events: float
    row_state_bytes: float

    def of_packed(self, content: bytes | None) -> float:
        """Returns how many bytes a packed state stands for."""
        keys = 0.0 if content is None else max(0.0, (len(content) - PACKED_EMPTY) / PACKED_KEY)
        return keys * self.row_state_bytes


class Links:
    """The links of machines and functions, each with its own bandwidth in each direction. Frames take one after the
    other what there is. Call it for each frame: it returns nanoseconds."""

    def __init__(self, host_of: Callable[[str], str], sizes: Sizes, kept_share: float) -> None:
        """A handover sends the whole state of a partition to each of its followers; `kept_share` of it is the part
        that the follower keeps. Only that counts here, as where each gets its own keys."""
        self._host_of = host_of
        self._sizes = sizes
        self._kept_share = kept_share
        self._free_ns: dict[tuple[str, str], float] = {}
        self.state_bytes = 0.0

    def __call__(self, sender: str, to: str, frame: Frame, now_ns: int) -> int:
        size = self._bytes(frame)
        if not size:
            return 0
        source, target = self._host_of(sender), self._host_of(to)
        if source == target:
            return 0
        done_ns = float(now_ns)
        for direction, node in (("out", source), ("in", target)):
            if node == OUTSIDE:
                continue
            per_s = VM_BYTES_PER_S if is_machine(node) else FUNCTION_BYTES_PER_S
            begins_ns = max(float(now_ns), self._free_ns.get((direction, node), 0.0))
            self._free_ns[direction, node] = begins_ns + size / per_s * SECOND_NS
            done_ns = max(done_ns, self._free_ns[direction, node])
        return int(done_ns - now_ns)

    def _bytes(self, frame: Frame) -> float:
        row_bytes = self._sizes.row_events * EVENT_BYTES
        if isinstance(frame, Data):
            rows: int = frame.batch.num_rows
            return rows * row_bytes
        if isinstance(frame, Redirected):
            return row_bytes
        if isinstance(frame, Returned):
            return row_bytes if frame.outputs else 0.0
        if isinstance(frame, GivenBack):
            return self._state(self._sizes.of_packed(frame.states))
        if isinstance(frame, Bequest):
            return self._state(self._sizes.of_packed(frame.states) * self._kept_share)
        return 0.0

    def _state(self, size: float) -> float:
        self.state_bytes += size
        return size


class StateCosts:
    """What it takes to encode and decode states."""

    def __init__(self, sizes: Sizes, kept_share: float, row_keeper: str | None) -> None:
        self._sizes = sizes
        self._kept_share = kept_share
        self._keeper = row_keeper

    def of(self, instance: Instance, work: Any) -> float:
        """Returns the nanoseconds that a run takes for a state, besides its rows."""
        if instance.address.function != self._keeper:
            return 0.0
        if isinstance(work, GiveBack | GiveKeys):
            return self._held(instance) * ENCODE_NS_PER_BYTE
        if isinstance(work, TakeBack):
            return sum(map(self._sizes.of_packed, work.parts)) * ENCODE_NS_PER_BYTE
        if isinstance(work, TakeKeys):
            return self._sizes.of_packed(work.states) * ENCODE_NS_PER_BYTE
        if isinstance(work, Bequeath):
            # One thread of a machine encodes for all its cores, and those who get the parts decode them.
            return self._held(instance) * CORES * ENCODE_NS_PER_BYTE * (1 + self._kept_share)
        return 0.0

    def _held(self, instance: Instance) -> float:
        keys: int = len(instance.function.kept)
        return keys * self._sizes.row_state_bytes


class Usage:
    """How busy the cores of each kind were, by the second."""

    def __init__(self, begins_ns: int) -> None:
        self._begins_ns = begins_ns
        self._busy_ns: dict[tuple[bool, int], float] = {}

    def add(self, is_ordinary: bool, now_ns: int, cost_ns: int) -> None:
        """A run that begins now is spread over the seconds that it takes."""
        at_ns = now_ns - self._begins_ns
        while cost_ns > 0:
            second = at_ns // SECOND_NS
            part_ns = min(cost_ns, (second + 1) * SECOND_NS - at_ns)
            self._busy_ns[is_ordinary, second] = self._busy_ns.get((is_ordinary, second), 0.0) + part_ns
            at_ns, cost_ns = at_ns + part_ns, cost_ns - part_ns

    def cores(self, is_ordinary: bool, first_s: float, last_s: float) -> float:
        """Returns how many cores were busy on average."""
        seconds = range(int(first_s), max(int(first_s) + 1, int(last_s)))
        return sum(self._busy_ns.get((is_ordinary, each), 0.0) for each in seconds) / SECOND_NS / len(seconds)


class MeteredCluster(SimulatedCluster):
    """A cluster in which functions count what their rows take."""

    def __init__(
        self, meter: Meter, usage: Usage, host_of: Callable[[str], str], workers: int, seed: int, **more: Any
    ) -> None:
        self._meter = meter
        self._usage = usage
        self._node_of = host_of
        self._running: tuple[str, int] = ("", 0)
        super().__init__(workers, seed, host_of=host_of, checked=False, **more)

    def _cost_ns(self, name: str, instance: Instance, work: Any) -> int:
        self._running = name, super()._cost_ns(name, instance, work)
        return self._running[1]

    def spent_ns(self) -> int:
        spent_ns = self._meter.take()
        name, cost_ns = self._running
        host = self._node_of(name)
        if host != OUTSIDE:
            self._usage.add(is_machine(host), self.now_ns, cost_ns + spent_ns)
        return spent_ns


def uniform_ns(chance: random.Random, bounds_s: tuple[float, float]) -> int:
    """Returns a random time between two."""
    return int(chance.uniform(*bounds_s) * SECOND_NS)
