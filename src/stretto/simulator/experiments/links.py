"""The network of simulated nodes: every node has one link of a given bandwidth in each direction.

Frames between workers of one node pass through shared memory and cost nothing here. Others occupy the link of the
sending node, then that of the receiving one, in the order in which they are sent. Only rows and states count: control
frames are small. What a row or a byte of state stands for is the experiment's (`executors.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from stretto.protocol.channels import Data
from stretto.protocol.elastic import Given
from stretto.protocol.frames import Frame
from stretto.protocol.handover import Bequest

GIGABIT_BYTES_PER_S = 125_000_000
OUTSIDE = "outside"
"""The node of members that are not part of the cluster under test, such as generators: its link has no bound."""


class NodeLinks:
    """The links of all nodes, and what has passed through them. Call it for each frame: it returns nanoseconds."""

    def __init__(
        self,
        host_of: Callable[[str], str],
        row_bytes: float,
        state_factor: float,
        bytes_per_s: float = GIGABIT_BYTES_PER_S,
    ) -> None:
        """`row_bytes` is the size of what a row stands for, `state_factor` how many bytes one byte of state stands
        for."""
        self._host_of = host_of
        self._row_bytes = row_bytes
        self.state_factor = state_factor
        self._ns_per_byte = 1e9 / bytes_per_s
        self._free_ns: dict[tuple[str, str], float] = {}
        self.state_bytes = 0.0
        """State that has left its node."""
        self.remote_bytes = 0.0
        """Rows between the workers of different nodes."""

    def __call__(self, sender: str, to: str, frame: Frame, now_ns: int) -> int:
        if not isinstance(frame, Data | Given | Bequest):
            return 0
        source, target = self._host_of(sender), self._host_of(to)
        if source == target:
            return 0
        if isinstance(frame, Given | Bequest):
            size = len(frame.states) * self.state_factor
            self.state_bytes += size
        else:
            size = frame.batch.num_rows * self._row_bytes
            self.remote_bytes += size if OUTSIDE not in (source, target) else 0.0
        done_ns = float(now_ns)
        for link in (("out", source), ("in", target)):
            if link[1] != OUTSIDE:
                begins_ns = max(float(now_ns), self._free_ns.get(link, 0.0))
                self._free_ns[link] = begins_ns + size * self._ns_per_byte
                done_ns = max(done_ns, self._free_ns[link])
        return int(done_ns - now_ns)
