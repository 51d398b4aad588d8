"""Who follows whom, which requests come when, and which objects each reads and writes."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from itertools import accumulate

import pyarrow as pa

from stretto.actors.context import Context
from stretto.actors.source import Reading
from stretto.simulator.engine.sources import SimulatedSource

SCHEMA = pa.schema([("ask", pa.int64()), ("user", pa.int64())])
ASKS = ("compose", "read_user", "read_home")
SHARES = (0.1, 0.3, 0.6)
"""How often each is asked for, as in DeathStarBench's mixed workload."""
CLIENTS = 16
LATEST = 10
"""How many posts of a timeline are read."""
SPIKE_NS = 20_000_000
"""How long the load of a group of users stays as it is, where it changes."""


@dataclass(frozen=True)
class Setting:
    """One run. `fetch_ns` is one access to the server, `size_bytes` that of an object, `cached` how many objects a
    worker keeps; 0 for none. `hot` is the share of users with 90 percent of the requests, 0 for all alike. `pareto` is
    the exponent of the load that changes from group to group of users, 0 for a load that does not."""

    workers: int = 128
    users: int = 640
    requests: int = 8_000
    follows: int = 10
    service_ns: int = 1_000_000
    fetch_ns: int = 200_000
    size_bytes: int = 512
    ns_per_byte: float = 1.0
    cached: int = 256
    hot: float = 0.0
    pareto: float = 0.0
    utilisation: float = 0.6
    latency_ns: int = 6_000_000
    seed: int = 1

    @property
    def access_ns(self) -> int:
        """How long one access to the server takes."""
        return self.fetch_ns + int(self.size_bytes * self.ns_per_byte)

    @property
    def gap_ns(self) -> float:
        """The mean time between two requests of one client, from what requests of the smallest objects cost without a
        cache."""
        accesses = 1 + LATEST
        cost_ns = self.service_ns + accesses * (self.fetch_ns + 512 * self.ns_per_byte)
        return cost_ns * CLIENTS / (self.workers * self.utilisation)


class Network:
    """The followers of each user, more of popular ones, and the latest posts of each timeline."""

    def __init__(self, setting: Setting) -> None:
        chance = random.Random(setting.seed)
        weights = list(accumulate(1 / rank for rank in range(1, setting.users + 1)))
        self.followers: list[list[int]] = [[] for _ in range(setting.users)]
        for user in range(setting.users):
            for other in set(chance.choices(range(setting.users), cum_weights=weights, k=setting.follows)) - {user}:
                if len(self.followers[other]) < 10 * setting.follows:
                    self.followers[other].append(user)
        self._posts = 0
        self._timelines: dict[str, deque[int]] = {}
        for user in range(setting.users):
            for _ in range(2):
                self._compose(user)

    def _compose(self, user: int) -> list[str]:
        self._posts += 1
        timelines = [f"user:{user}", *(f"home:{each}" for each in self.followers[user])]
        for name in timelines:
            self._timelines.setdefault(name, deque(maxlen=LATEST)).append(self._posts)
        return [f"post:{self._posts}", *timelines]

    def writes(self, user: int) -> list[str]:
        """Returns the objects that a user's new post goes into."""
        return self._compose(user)

    def reads(self, ask: str, user: int) -> list[str]:
        """Returns the objects that a request reads: a timeline, and its latest posts."""
        name = f"{'user' if ask == 'read_user' else 'home'}:{user}"
        return [name, *(f"post:{post}" for post in self._timelines.get(name, ()))]


class Clients(SimulatedSource):
    """A source: requests at random times of random users (seeded)."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting

    def open(self, ctx: Context) -> None:
        self._chance = random.Random(self._setting.seed * 1_000 + ctx.partition)
        self._begins_ns = ctx.now_ns + 10_000_000
        self._due_ns = self._begins_ns + self._pause_ns()
        self._left = self._setting.requests // CLIENTS
        self._spike = -1

    def _pause_ns(self) -> int:
        return int(self._chance.expovariate(1 / self._setting.gap_ns))

    def _user(self) -> int:
        setting, chance = self._setting, self._chance
        if setting.pareto:
            return self._spiking_user()
        hot = max(1, int(setting.hot * setting.users))
        if setting.hot and chance.random() < 0.9:
            return chance.randrange(hot) * 7 % setting.users
        return chance.randrange(setting.users)

    def _spiking_user(self) -> int:
        """Returns a user of a group that has more requests for a while. Clients agree on which."""
        setting = self._setting
        spike = (self._due_ns - self._begins_ns) // SPIKE_NS
        if spike != self._spike:
            self._spike = spike
            drawn = random.Random(setting.seed * 7_919 + spike)
            self._weights = list(accumulate(drawn.paretovariate(setting.pareto) for _ in range(setting.workers)))
        group = self._chance.choices(range(setting.workers), cum_weights=self._weights)[0]
        each = setting.users // setting.workers
        return group * each + self._chance.randrange(each)

    def read(self, now_ns: int) -> Reading:
        if not self._left:
            return Reading(None, now_ns, done=True)
        if now_ns < self._due_ns:
            return Reading(None, now_ns, next_ns=self._due_ns)
        due_ns, user = self._due_ns, self._user()
        self._left -= 1
        self._due_ns += self._pause_ns()
        ask = self._chance.choices(range(len(ASKS)), SHARES)[0]
        batch = pa.RecordBatch.from_arrays([pa.array([ask], pa.int64()), pa.array([user], pa.int64())], schema=SCHEMA)
        return Reading(batch, due_ns, next_ns=self._due_ns)
