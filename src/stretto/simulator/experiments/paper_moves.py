"""Figures 11 and 12 of elasticutor.txt: what moving a shard takes, by upstream executors and by size of state.

Shards of a lightly loaded executor are moved one by one, within its node and to another one. The time in which the rows
of a shard wait is what its home reports; where keys are dealt to partitions, all rows wait from the barrier until the
new partitions start. The state's time on the network is known; the rest is synchronisation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from stretto.actors.shards import ShardMap
from stretto.coordinator.events import MoveShardsRequested
from stretto.elasticity import Controller, Team
from stretto.elasticity.decisions import Repartition
from stretto.elasticity.records import DecisionRecord, Trigger
from stretto.elasticity.subjects import Subject
from stretto.elasticity.view import ElasticView
from stretto.simulator.experiments.executors import CORES_PER_NODE, SECOND_NS, Setting, Trial, no_controllers
from stretto.simulator.experiments.links import GIGABIT_BYTES_PER_S
from stretto.simulator.experiments.paper_figures import Done, PaperFigure, PaperScale

UPSTREAMS = (1, 4, 16, 64)
SHARD_BYTES = (32 * 1024, 1024 * 1024, 32 * 1024 * 1024)
MOVED = 24
"""Shards that are moved each way."""
EVERY_NS = 400_000_000
KEYS = 500
BEGINS_S = 3.0
"""So few keys that each has its state when the first shard moves."""


def _setting(upstreams: int, shard_bytes: int, seed: int, **more: Any) -> Setting:
    usual: dict[str, Any] = {"nodes": 2, "load": 0.05, "rows_per_core": 1, "keys": KEYS, "warm_s": BEGINS_S}
    seconds = 2.0 + MOVED * EVERY_NS / SECOND_NS
    return Setting(**usual, generators=upstreams, shard_bytes=shard_bytes, seed=seed, seconds=seconds, **more)


def moved_ms(upstreams: int, shard_bytes: int, away: bool, seed: int) -> dict[str, float]:
    """Returns the median time in which the rows of a shard of an elastic executor wait, and the two parts of it."""
    trial = Trial(_setting(upstreams, shard_bytes, seed, executors=2, controllers=no_controllers))
    target = trial.workers_on(int(away))[1]
    for number in range(MOVED):
        request = MoveShardsRequested("micro", "calculator", 0, ((7 + 10 * number, target),), "")
        trial.cluster.plan(int(BEGINS_S * SECOND_NS) + number * EVERY_NS, partial(trial.cluster.ask, request))
    measured = trial.run()
    waited = [each.waited_ns / each.moved / 1e6 for each in measured.moves if each.moved]
    if len(waited) < MOVED // 2:
        raise ValueError(f"only {len(waited)} of {MOVED} shards have moved")
    sizes = [each.bytes for each in measured.moves if each.moved]
    sent_bytes = trial.links.state_factor * float(np.mean(sizes)) if away else 0.0
    return _parts(float(np.median(waited)), sent_bytes)


class OneByOne(Controller):
    """Deals one shard of the first partition after the other to another partition."""

    looks_at = Subject.JOBS
    every_ns = EVERY_NS

    def __init__(self, target: int, count: int) -> None:
        self._target = target
        self._count = count

    def decide(self, view: ElasticView, now_ns: int) -> list[DecisionRecord]:
        """Returns the next map, if the one before has taken effect."""
        job = view.observed.jobs.get("micro")
        shape = job.functions["calculator"].shape if job is not None and "micro" in view.jobs else None
        if shape is None or shape.shards is None or now_ns < (1 + BEGINS_S) * SECOND_NS:
            return []
        owners = bytearray(shape.shards.finer(self._count).owners)
        owners[owners.index(0)] = self._target
        dealt = ShardMap(shape.shards.version + 1, bytes(owners))
        decision = Repartition("micro", "calculator", shape.parallelism, shards=dealt)
        return [
            DecisionRecord(
                now_ns, self.name, "micro", "calculator", None, Trigger.OWN, "it is its turn", decision=decision
            )
        ]


class DealtOneByOne(Trial):
    """Moves shards by operator-level repartitioning."""

    away = False

    def team(self) -> Team:
        assert self.loads is not None
        # Partitions are on the nodes in turn.
        return Team([OneByOne(1 if self.away else 2, self.loads.count)])


class DealtAway(DealtOneByOne):
    """Moves them to the other node."""

    away = True


def dealt_ms(upstreams: int, shard_bytes: int, away: bool, seed: int) -> dict[str, float]:
    """Returns the median time in which rows wait while one shard is dealt to another partition, and its parts."""
    setting = _setting(upstreams, shard_bytes, seed, executors=2 * CORES_PER_NODE, dealt=True)
    trial = (DealtAway if away else DealtOneByOne)(setting)
    measured = trial.run()
    done = [record.spent["paused_ms"] for record in measured.decisions if record.spent]
    if not done:
        raise ValueError("no shard was dealt to another partition")
    return _parts(float(np.median(done)), trial.links.state_bytes / len(done))


def _parts(total_ms: float, sent_bytes: float) -> dict[str, float]:
    migration_ms = sent_bytes / GIGABIT_BYTES_PER_S * 1e3
    return {
        "total_ms": round(total_ms, 2),
        "synchronisation_ms": round(max(0.0, total_ms - migration_ms), 2),
        "migration_ms": round(min(total_ms, migration_ms), 2),
    }


Moving = Callable[[int, int, bool, int], dict[str, float]]
MOVING: dict[str, Moving] = {"elastic": moved_ms, "resource_centric": dealt_ms}
WHOLE = (
    "A run of a batch must end before a shard leaves. The job is lightly loaded, so nothing in flight delays the "
    "barrier of the resource-centric lever, and frames take 0.1 ms: what is left of its synchronisation is a few round "
    "trips. With full queues it takes as long as they do (figure 6). Static partitions do not move. Naive and elastic "
    "differ in where shards go, not in how."
)


def figure_11(scale: PaperScale, done: Done) -> PaperFigure:
    """Within a node and between nodes."""
    ours: dict[str, Any] = {}
    for approach, moving in MOVING.items():
        ours[approach] = {}
        for name, away in (("intra_node", False), ("inter_node", True)):
            ours[approach][name] = moving(4, SHARD_BYTES[0], away, scale.seed)
            done()
    paper = {"elastic_synchronisation_ms": 2, "resource_centric": "2 to 3 orders of magnitude longer"}
    elastic, dealt = ours["elastic"], ours["resource_centric"]
    claims = {
        "moves between nodes take longer than within one": elastic["inter_node"]["total_ms"]
        >= elastic["intra_node"]["total_ms"],
        "resource-centric takes longer to synchronise": all(
            dealt[name]["synchronisation_ms"] > elastic[name]["synchronisation_ms"] for name in elastic
        ),
    }
    return PaperFigure("Time to move a shard", ours, paper, claims, WHOLE)


def figure_12(scale: PaperScale, done: Done) -> PaperFigure:
    """By the number of upstream executors, and by the size of the state."""
    synchronised: dict[str, dict[str, float]] = {}
    by_size: dict[str, dict[str, dict[str, float]]] = {}
    for approach, moving in MOVING.items():
        synchronised[approach], by_size[approach] = {}, {}
        for upstreams in UPSTREAMS:
            found = moving(upstreams, SHARD_BYTES[0], False, scale.seed)
            synchronised[approach][str(upstreams)] = found["synchronisation_ms"]
            done()
        for size in SHARD_BYTES:
            by_way = by_size[approach][str(size // 1024)] = {}
            for name, away in (("intra_node", False), ("inter_node", True)):
                by_way[name] = moving(4, size, away, scale.seed)["total_ms"]
                done()
    ours = {"synchronisation_ms_by_upstreams": synchronised, "total_ms_by_kb": by_size}
    elastic, dealt = ([*synchronised[name].values()] for name in MOVING)
    largest = by_size["elastic"][str(SHARD_BYTES[-1] // 1024)]
    paper = {
        "elastic_synchronisation_ms": "about 2, whatever the number of upstream executors",
        "resource_centric": "2 to 3 orders of magnitude longer, and more with each upstream executor",
        "migration": "negligible within a node; between nodes dominant at 32 MB",
    }
    claims = {
        "synchronisation of elastic is flat in upstream executors": max(elastic) < 3 * max(1.0, min(elastic)),
        "that of resource-centric is longer": all(more > less for more, less in zip(dealt, elastic, strict=True)),
        "and grows with upstream executors": dealt[-1] > dealt[0],
        "migration is dominant between nodes at 32 MB": largest["inter_node"] > 10 * largest["intra_node"],
    }
    return PaperFigure("Moves by upstream executors and state size", ours, paper, claims, WHOLE)


RUNS_11 = 2 * len(MOVING)
RUNS_12 = (len(UPSTREAMS) + 2 * len(SHARD_BYTES)) * len(MOVING)
