"""One run of a query with a burst, by one of the ways to scale that sponge.txt 6 compares.

Each is made of levers of the production machines. Those of the paper that migrate tasks hand the job over to more
instances; what differs is where the new cores are and when. **VMBase** starts virtual machines, **VMInit** has them
idle already, and **Over** uses them all the time. **SFBase** starts functions, which may not talk to each other, so
only one function of the query has instances there: what groups, or what maps in query 1. With **routers** that does not
hold, and all functions do; with **transient** operators the functions' tasks wait there already, so only states have to
move. **Sponge** is the controller of bursts with transient workers.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretto.actors.channel import Message
from stretto.actors.instance import Instance
from stretto.elasticity.burst_controller import BurstController
from stretto.elasticity.decisions import EndBurst, RedirectBurst
from stretto.elasticity.records import Outcome
from stretto.elasticity.team import Team
from stretto.errors import InvariantError
from stretto.simulator.engine.cluster import SimulatedCluster, Timing, is_transient
from stretto.simulator.experiments.sponge.machines import (
    CORES,
    FUNCTION_STARTS_S,
    NOTICED_S,
    OTHER_NS,
    OUTSIDE,
    RESCHEDULED_S,
    VM_STARTS_S,
    Links,
    MeteredCluster,
    Sizes,
    StateCosts,
    Usage,
    uniform_ns,
)
from stretto.simulator.experiments.sponge.patterns import SECOND_NS, Arrivals, Pattern
from stretto.simulator.experiments.sponge.queries import QUERIES, Events, Keys, Meter, deployment

BEGINS_NS = 2 * SECOND_NS
BUSY = 0.7
"""How busy the ordinary cores are while the load is stable, and how busy those are to be that are added."""
PAPER_MACHINES = 5
"""Smaller clusters get a smaller part of the events."""
WARM_UP = 0.5
"""This share of the time before the burst is not measured."""


class Approach(Enum):
    """A way to scale, by its name in the paper."""

    NO_SCALING = "NoScaling"
    VM_BASE = "VMBase"
    SF_BASE = "SFBase"
    VM_INIT = "VMInit"
    OVER = "Over"
    ROUTERS = "SpongeRO"
    TRANSIENT = "SpongeTO"
    SPONGE = "Sponge"

    @property
    def on_functions(self) -> bool:
        """Whether tasks migrate to functions."""
        return self in (Approach.SF_BASE, Approach.ROUTERS, Approach.TRANSIENT)

    @property
    def is_there(self) -> bool:
        """Whether what is added has started before the burst."""
        return self in (Approach.VM_INIT, Approach.TRANSIENT)


@dataclass(frozen=True)
class Setting:
    """One run. A row takes a core `row_ms`, and stands for as many events as that is."""

    query: str
    approach: Approach
    pattern: Pattern = field(default_factory=Pattern)
    machines: int = 5
    transient: int = 200
    window_s: int = 60
    row_ms: float = 50.0
    cores: int = 0
    """How many ordinary cores an over-provisioned cluster has; 0 for as many as the peak takes."""
    seed: int = 1

    @property
    def stable_cores(self) -> int:
        return self.machines * CORES

    @property
    def peak_cores(self) -> int:
        """So many cores are as busy at the peak of the burst as the stable ones are before it."""
        wanted = math.ceil(self.stable_cores * self.pattern.times)
        return min(wanted, self.stable_cores + self.transient) if self.approach.on_functions else wanted

    @property
    def rows_per_s(self) -> float:
        return self.stable_cores * BUSY / (self.row_ms / 1e3)

    @property
    def sizes(self) -> Sizes:
        query = QUERIES[self.query]
        rows_per_s = self.rows_per_s * PAPER_MACHINES / self.machines
        # Table 1 has the states of windows of 60 seconds.
        return Sizes(query.events_per_s / rows_per_s, query.state_bytes / (60 * rows_per_s))


@dataclass
class Measured:
    """What a run has shown: the moment and the latency of each result, by the arrival of the last event in it, how many
    rows had not come out at the end, cores in use, and what was decided."""

    setting: Setting
    arrived_s: list[float] = field(default_factory=list)
    latency_s: list[float] = field(default_factory=list)
    usage: Usage = field(default_factory=lambda: Usage(BEGINS_NS))
    transient_core_s: float = 0.0
    """How long transient workers were in use, together."""
    redirected_s: float | None = None
    """When the first batches went there, from the start of the burst."""
    ended_s: float | None = None
    """When all came back, from its end."""
    scaled_s: float | None = None
    """When more cores had taken over, from the start of the burst."""
    moved_bytes: float = 0.0
    refused: list[str] = field(default_factory=list)

    def p99_s(self, phase: str) -> float | None:
        """Returns the 99th percentile of the latency of what arrived in a phase."""
        pattern = self.setting.pattern
        found = [
            latency
            for arrived, latency in zip(self.arrived_s, self.latency_s, strict=True)
            if arrived >= WARM_UP * pattern.before_s and pattern.phase(arrived) == phase
        ]
        return round(float(np.percentile(found, 99)), 3) if found else None

    @property
    def peak_s(self) -> float:
        """The greatest of the 99th percentiles of each second from the start of the burst on, as in figure 12. What
        never came out had waited until the end at least."""
        before_s, arrived = self.setting.pattern.before_s, np.array(self.arrived_s)
        latency = np.array(self.latency_s)
        peaks = [
            float(np.percentile(latency[seconds], 99))
            for second in range(int(before_s), int(self.setting.pattern.seconds))
            if (seconds := _in_second(arrived, second)).any()
        ]
        last = max(self.arrived_s, default=0.0)
        return round(max([*peaks, self.setting.pattern.seconds - last - 1.0]), 3)

    def utilisation(self) -> dict[str, float]:
        """Returns how busy the ordinary cores were in each phase, and how many transient ones worked in the burst."""
        pattern = self.setting.pattern
        cores = self.setting.stable_cores
        if self.setting.approach in (Approach.VM_INIT, Approach.OVER):
            cores = self.setting.cores or self.setting.peak_cores
        over_s = pattern.before_s + pattern.burst_s
        spans = {
            "before": (WARM_UP * pattern.before_s, pattern.before_s),
            "during": (pattern.before_s, over_s),
            "after": (over_s, pattern.seconds),
        }
        found = {name: round(self.usage.cores(True, *span) / cores, 3) for name, span in spans.items()}
        return {**found, "transient_cores": round(self.usage.cores(False, *spans["during"]), 1)}

    def summary(self) -> dict[str, Any]:
        """Returns the figures that are compared."""
        return {
            "p99_s": {phase: self.p99_s(phase) for phase in ("before", "during", "after")},
            "peak_s": self.peak_s,
            "utilisation": self.utilisation(),
            "redirected_s": self.redirected_s,
            "ended_s": self.ended_s,
            "scaled_s": self.scaled_s,
            "state_moved_mb": round(self.moved_bytes / 1e6, 1),
            "refused": self.refused,
        }


def _in_second(arrived: npt.NDArray[np.float64], second: int) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = (arrived >= second) & (arrived < second + 1)
    return found


class Trial:
    """One run of a setting: `Trial(setting).run()`."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._query = QUERIES[setting.query]
        self._meter = Meter()
        self._chance = random.Random(setting.seed)
        self._measured = Measured(setting)
        stable, peak = setting.stable_cores, setting.peak_cores
        self._kept_share = stable / peak
        self._links = Links(self.host_of, setting.sizes, self._kept_share)
        self._state_costs = StateCosts(setting.sizes, self._kept_share, self._query.keeper)
        arrivals = Arrivals(setting.pattern, setting.rows_per_s, stable, BEGINS_NS)
        self._source = Events(arrivals, Keys(setting.seed))
        self.cluster = self._cluster()
        self._burst_ns = BEGINS_NS + int(setting.pattern.before_s * SECOND_NS)
        self._until_ns = BEGINS_NS + int(setting.pattern.seconds * SECOND_NS)
        self._awaited: set[str] = set()

    def _cluster(self) -> SimulatedCluster:
        setting = self._setting
        is_sponge = setting.approach is Approach.SPONGE
        cores = setting.stable_cores
        if setting.approach is Approach.OVER:
            cores = setting.cores or setting.peak_cores
        return MeteredCluster(
            self._meter,
            self._measured.usage,
            self.host_of,
            cores,
            setting.seed,
            timing=Timing(delay_ns=(40_000, 120_000)),
            costs=self.cost_ns,
            begins_ns=SECOND_NS,
            controllers=Team([BurstController()] if is_sponge else []),
            links=self._links,
            transient=setting.transient if is_sponge else 0,
        )

    def host_of(self, name: str) -> str:
        """Returns the machine of a core; each function is one by itself."""
        if name.startswith("driver"):
            return OUTSIDE
        number = int(name.partition("~")[0][1:])
        is_function = is_transient(name) or (
            self._setting.approach.on_functions and number >= self._setting.stable_cores
        )
        return f"function{name}" if is_function else f"vm{number // CORES}"

    def _deployed(self, cores: int, names: frozenset[str] | None = None) -> Any:
        """Returns the query with an instance of these functions, or of all, on each core."""
        stable = self._setting.stable_cores
        counts = {name: cores if names is None or name in names else stable for name in ("map", "group", "join")}
        row_ns = int(self._setting.row_ms * 1e6)
        return deployment(
            self._query, {"events": stable, **counts}, row_ns, self._setting.window_s, self._source, self._meter
        )

    def run(self) -> Measured:
        """Returns what was measured. The run ends with the time, not with the work."""
        setting, cluster = self._setting, self.cluster
        over = (setting.cores or setting.peak_cores) if setting.approach is Approach.OVER else setting.stable_cores
        job = cluster.submit(self._deployed(over))
        if setting.approach.is_there or setting.approach in (Approach.VM_BASE, Approach.SF_BASE, Approach.ROUTERS):
            self._scale()
        while cluster.next_ns is not None and cluster.next_ns < self._until_ns:
            cluster.step()
        if job.failure is not None:
            raise InvariantError("the simulated job failed", f"{job.failure.fact}: {job.failure.detail}")
        self._look_back()
        cluster.close()
        return self._measured

    # Scaling by more instances.

    def _scale(self) -> None:
        """Plans that cores come, and that the job is handed over to more instances when all are there."""
        setting, cluster = self._setting, self.cluster
        noticed_ns = self._burst_ns + int(NOTICED_S * SECOND_NS) - cluster.now_ns
        bounds_s = FUNCTION_STARTS_S if setting.approach.on_functions else VM_STARTS_S
        new = range(setting.stable_cores, setting.peak_cores)
        starts_ns: dict[int, int] = {}
        for number in new:
            started_ns = starts_ns.setdefault(
                number if setting.approach.on_functions else number // CORES, uniform_ns(self._chance, bounds_s)
            )
            cluster.join(f"w{number}~1", SECOND_NS if setting.approach.is_there else noticed_ns + started_ns)
        last_ns = 0 if setting.approach.is_there else max(starts_ns.values(), default=0)
        if setting.approach is not Approach.TRANSIENT:
            last_ns += int(RESCHEDULED_S * SECOND_NS)
        cluster.plan(noticed_ns + last_ns, self._hand_over)

    def _hand_over(self) -> None:
        names = None
        if self._setting.approach is Approach.SF_BASE:
            names = frozenset({self._query.keeper or "map"})
        self.cluster.reshape(self._deployed(self._setting.peak_cores, names))

    # Costs, and what is measured.

    def cost_ns(self, chance: random.Random, instance: Instance, work: Any) -> int:
        """Returns what a run costs besides its rows, and takes note of results."""
        is_result = instance.address.function == "results" and isinstance(work, Message)
        if is_result and isinstance(work.payload, pa.RecordBatch):
            self._came_out(work)
        return OTHER_NS + int(self._state_costs.of(instance, work))

    def _came_out(self, message: Message) -> None:
        now_ns = self.cluster.now_ns
        if self._measured.scaled_s is None and self.cluster.handed_over:
            self._measured.scaled_s = round((now_ns - self._burst_ns) / SECOND_NS, 3)
        self._measured.arrived_s.append((message.arrived_ns - BEGINS_NS) / SECOND_NS)
        self._measured.latency_s.append((now_ns - message.arrived_ns) / SECOND_NS)

    def _look_back(self) -> None:
        measured, pattern = self._measured, self._setting.pattern
        measured.moved_bytes = self._links.state_bytes
        measured.refused = list(self.cluster.refusals)[:3]
        in_use, since_ns = 0, 0
        for record in self.cluster.decisions.values():
            if record.outcome is not Outcome.DONE or not isinstance(record.decision, RedirectBurst | EndBurst):
                continue
            measured.transient_core_s += in_use * (record.at_ns - since_ns) / SECOND_NS
            in_use, since_ns = 0, record.at_ns
            if isinstance(record.decision, RedirectBurst):
                in_use = len({member for each in record.decision.redirections for member in each.members})
                if measured.redirected_s is None:
                    measured.redirected_s = round((record.at_ns - self._burst_ns) / SECOND_NS, 3)
            else:
                over_ns = self._burst_ns + int(pattern.burst_s * SECOND_NS)
                measured.ended_s = round((record.at_ns - over_ns) / SECOND_NS, 3)
        measured.transient_core_s += in_use * (self._until_ns - since_ns) / SECOND_NS
