"""Figures 11 and 12 of elasticutor.txt: what moving a shard takes, by upstream executors and by size of state.

Shards of a lightly loaded executor are moved one by one, within its node and to another one. The time in which the rows
of a shard wait is what its home reports. The state's time on the network is known; the rest is synchronisation.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from stretto.coordinator.events import MoveShardsRequested
from stretto.simulator.experiments.executors import SECOND_NS, Setting, Trial, no_controllers
from stretto.simulator.experiments.links import GIGABIT_BYTES_PER_S
from stretto.simulator.experiments.paper_figures import NO_RC, Done, PaperFigure, PaperScale

UPSTREAMS = (1, 4, 16, 64)
SHARD_BYTES = (32 * 1024, 1024 * 1024, 32 * 1024 * 1024)
MOVED = 24
"""Shards that are moved each way."""
EVERY_NS = 400_000_000
KEYS = 500
BEGINS_S = 3.0
"""So few keys that each has its state when the first shard moves."""


def moved_ms(upstreams: int, shard_bytes: int, away: bool, seed: int) -> dict[str, float]:
    """Returns the median time in which the rows of a shard wait, and the two parts of it."""
    setting = Setting(
        nodes=2,
        executors=2,
        controllers=no_controllers,
        generators=upstreams,
        shard_bytes=shard_bytes,
        load=0.05,
        rows_per_core=1,
        keys=KEYS,
        warm_s=BEGINS_S,
        seconds=2.0 + MOVED * EVERY_NS / SECOND_NS,
        seed=seed,
    )
    trial = Trial(setting)
    target = trial.workers_on(int(away))[1]
    for number in range(MOVED):
        request = MoveShardsRequested("micro", "calculator", 0, ((7 + 10 * number, target),), "")
        trial.cluster.plan(int(BEGINS_S * SECOND_NS) + number * EVERY_NS, partial(trial.cluster.ask, request))
    measured = trial.run()
    waited = [each.waited_ns / each.moved / 1e6 for each in measured.moves if each.moved]
    if len(waited) < MOVED // 2:
        raise ValueError(f"only {len(waited)} of {MOVED} shards have moved")
    sizes = [each.bytes for each in measured.moves if each.moved]
    migration_ms = trial.links.state_factor * float(np.mean(sizes)) / GIGABIT_BYTES_PER_S * 1e3 if away else 0.0
    total_ms = float(np.median(waited))
    return {
        "total_ms": round(total_ms, 2),
        "synchronisation_ms": round(max(0.0, total_ms - migration_ms), 2),
        "migration_ms": round(migration_ms, 2),
    }


def figure_11(scale: PaperScale, done: Done) -> PaperFigure:
    """Within a node and between nodes."""
    ours: dict[str, Any] = {}
    for name, away in (("intra_node", False), ("inter_node", True)):
        ours[name] = moved_ms(4, SHARD_BYTES[0], away, scale.seed)
        done()
    ours["resource_centric"] = None
    paper = {"elastic_synchronisation_ms": 2, "resource_centric": "2 to 3 orders of magnitude longer"}
    holds = ours["inter_node"]["total_ms"] >= ours["intra_node"]["total_ms"]
    note = f"A run of a batch must end before a shard leaves. {NO_RC}"
    return PaperFigure("Time to move a shard", ours, paper, holds, note)


def figure_12(scale: PaperScale, done: Done) -> PaperFigure:
    """By the number of upstream executors, and by the size of the state."""
    by_upstreams, by_size = {}, {}
    for upstreams in UPSTREAMS:
        by_upstreams[upstreams] = moved_ms(upstreams, SHARD_BYTES[0], False, scale.seed)
        done()
    for size in SHARD_BYTES:
        found = {}
        for name, away in (("intra_node", False), ("inter_node", True)):
            found[name] = moved_ms(4, size, away, scale.seed)["total_ms"]
            done()
        by_size[size] = found
    ours = {
        "synchronisation_ms_by_upstreams": {str(n): each["synchronisation_ms"] for n, each in by_upstreams.items()},
        "total_ms_by_kb": {str(size // 1024): each for size, each in by_size.items()},
        "resource_centric": None,
    }
    synchronised = [each["synchronisation_ms"] for each in by_upstreams.values()]
    flat = max(synchronised) < 3 * max(1.0, min(synchronised))
    largest = by_size[SHARD_BYTES[-1]]
    paper = {
        "elastic_synchronisation_ms": "about 2, whatever the number of upstream executors",
        "migration": "negligible within a node; between nodes dominant at 32 MB",
    }
    holds = flat and largest["inter_node"] > 10 * largest["intra_node"]
    return PaperFigure("Moves by upstream executors and state size", ours, paper, holds, NO_RC)


RUNS_11 = 2
RUNS_12 = len(UPSTREAMS) + 2 * len(SHARD_BYTES)
