"""What a keyed instance has on transient workers while a burst is redirected: keys, with their state.

The keys of the instance fall into `BUCKETS` by their hash, and a bucket is in one place: here, or with one transient
worker. A bucket without any state here is **free**, and goes to a transient worker with its first row, so no state is
moved. Its twin there keeps the state and runs the steps of barriers on it, as the tasks of an elastic executor do
(`tasks.py`), until it is asked back.

All that a twin was sent is in the **log** of its lane. When a transient worker vanishes, the log is run again here, on
the empty state or the last copy of it, and what had not come back is sent on.

Plain data that `worker/bursts/` changes.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from stretto.actors.away import Away
from stretto.actors.keyed_twins import Entry, Rebuild

if TYPE_CHECKING:
    from stretto.actors.work import Work

BUCKETS = 1 << 20
"""Many beside the keys of an instance: a key that falls into the bucket of another one that is here stays too."""
HOME, FREE = 0, 255
"""Places of buckets that no transient worker has. The others are the numbers of lanes."""
LANES_MAX = 254
OWN_MAX = 4
"""So many parts of messages that run here may wait before more messages are divided."""
WAITING_MAX = 8
"""So many parts may wait for one transient worker; then no more messages are divided."""

Places = npt.NDArray[np.uint8]
Buckets = npt.NDArray[np.int64]


class KeyedLane:
    """What one transient worker has of an instance: the buckets with its `place`.

    `waiting` are entries that were not sent yet, `out` those that have not come back, by their numbers. The `log` has
    all that were sent since the state was `base`. While `asked`, its state is on the way home, and nothing more is
    sent; while `copying`, a copy of it, which stands for all entries up to that number. It has `stepped` if it runs the
    steps of the work that is held."""

    __slots__ = ("asked", "base", "copying", "inputs", "log", "log_bytes", "out", "place", "stepped", "waiting")

    def __init__(self, place: int, seed: bytes) -> None:
        self.place = place
        self.base = seed
        self.waiting: deque[Entry] = deque()
        self.out: dict[int, Entry] = {}
        self.log: list[Entry] = []
        self.log_bytes = 0
        self.inputs: set[str] = set()
        self.asked = False
        self.copying: int | None = None
        self.stepped = False

    @property
    def is_idle(self) -> bool:
        return not (self.out or self.waiting or self.asked)


class KeyedAway(Away):
    """The record of one keyed instance. `places` says where each bucket is; None before the first survey, and when
    something may have brought state here since; `seed` is what a new twin begins with. `own` are parts of messages that
    run here. `held` waits until all that was sent has come back, and if it `recalls`, until all states have.

    `rebuilds` are the logs of lost twins, `states` what came back and is taken in next, `later` what is taken in after
    the work that is held, since the steps of that have run on it already. `version` changes when a lane comes or
    goes."""

    __slots__ = (
        "dividing",
        "keyed_lanes",
        "later",
        "places",
        "rebuilding",
        "rebuilds",
        "recalls",
        "released",
        "seed",
        "states",
        "survey_due",
        "surveyed_ns",
        "version",
    )

    def __init__(self) -> None:
        super().__init__()
        self.places: Places | None = None
        self.seed = b""
        self.keyed_lanes: dict[str, KeyedLane] = {}
        self.rebuilds: deque[Rebuild] = deque()
        self.rebuilding = False
        self.states: deque[bytes] = deque()
        self.later: list[bytes] = []
        self.recalls = False
        self.released: Work | None = None
        """The work that was held and runs now."""
        self.dividing = False
        self.survey_due = False
        self.surveyed_ns = 0
        self.version = 0

    @property
    def is_back(self) -> bool:
        if self.rebuilds or self.rebuilding or self.states or self.own or self.dividing:
            return False
        if self.recalls and (self.keyed_lanes or self.later):
            return False
        return all(lane.is_idle for lane in self.keyed_lanes.values())

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is anywhere else."""
        return self.is_back and not self.keyed_lanes and not self.later and self.held is None

    @property
    def has_work(self) -> bool:
        if self.rebuilds or self.states or (self.later and self.held is None):
            return True
        if self.own and (len(self.own) >= OWN_MAX or self.waits or self.survey_due):
            return True
        return self.survey_due if self.held is None else self.is_back

    @property
    def waits(self) -> bool:
        if self.held is not None or self.rebuilding:
            return True
        return any(len(lane.waiting) >= WAITING_MAX for lane in self.keyed_lanes.values())

    def free_place(self) -> int:
        """Returns a place that no lane has."""
        taken = {lane.place for lane in self.keyed_lanes.values()}
        return next(place for place in range(1, LANES_MAX + 1) if place not in taken)

    def lane_at(self, place: int) -> KeyedLane:
        return next(lane for lane in self.keyed_lanes.values() if lane.place == place)

    def come_home(self, member: str) -> KeyedLane:
        """The buckets of a transient worker are here from now on; returns its lane."""
        lane = self.keyed_lanes.pop(member)
        if self.places is not None:
            self.places[self.places == lane.place] = HOME
        self.version += 1
        return lane

    def release_held(self) -> Work:
        """Returns the work that was held, which runs now."""
        held, self.held = self.held, None
        assert held is not None
        self.released = held
        for lane in self.keyed_lanes.values():
            lane.stepped = False
        return held


def buckets_of(hashes: npt.NDArray[np.uint64]) -> Buckets:
    """Returns the bucket of each hash, by other bits than those of partitions and shards."""
    return (hashes >> np.uint64(44)).astype(np.int64)
