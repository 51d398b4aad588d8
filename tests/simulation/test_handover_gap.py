"""What a handover does to the output of a job that cannot keep up.

Its mark waits behind seconds of work, and sources wait for that; but what waits is worked off meanwhile. So results go
on, and the gap in them is much shorter than the pause.
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from tests.simulation.keyed_flows import SCHEMA, keyed_flow

from stretto.actors.channel import CREDITS_PER_CHANNEL, Message
from stretto.actors.instance import Instance
from stretto.actors.source import Reading
from stretto.coordinator.events import RescaleRequested
from stretto.elasticity.records import Outcome
from stretto.simulator.engine.cluster import SimulatedCluster, Timing
from stretto.simulator.engine.sources import SimulatedSource

SECOND_NS = 1_000_000_000
MESSAGE_NS = 50_000_000
"""What a message costs the keyed function: with all credits of a channel, more than a second and a half waits."""
ASKED_S, UNTIL_S = 5, 12
KEYS = 64


class Flood(SimulatedSource):
    """Batches of all keys, as fast as they are taken."""

    def read(self, now_ns: int) -> Reading:
        return Reading(pa.RecordBatch.from_arrays([pa.array(np.arange(KEYS))], schema=SCHEMA), now_ns)


def test_results_go_on_while_the_mark_waits_behind_the_backlog() -> None:
    results_ns: list[int] = []

    def costs(chance: random.Random, instance: Instance, work: Any) -> int:
        if not isinstance(work, Message) or not isinstance(work.payload, pa.RecordBatch):
            return 20_000
        if instance.address.function == "sink":
            results_ns.append(cluster.now_ns)
        rows = int(work.payload.num_rows)
        return MESSAGE_NS * rows // KEYS if instance.address.function == "keyed" else 20_000

    cluster = SimulatedCluster(3, 1, Timing(delay_ns=(40_000, 120_000)), costs=costs, begins_ns=0, checked=False)
    cluster.submit(keyed_flow("job", Flood()))
    asked = False
    while cluster.next_ns is not None and cluster.next_ns < UNTIL_S * SECOND_NS:
        if not asked and cluster.next_ns >= ASKED_S * SECOND_NS:
            asked = True
            cluster.ask(RescaleRequested("job", {"keyed": 2}, "token"))
        cluster.step()
    (record,) = cluster.decisions.values()
    assert record.outcome is Outcome.DONE
    assert record.spent is not None
    paused_ms = record.spent["paused_ms"]
    assert paused_ms > 0.8 * CREDITS_PER_CHANNEL * MESSAGE_NS / 1e6, "the mark waits behind what was sent before it"
    around = [after - before for before, after in pairwise(results_ns) if after > ASKED_S * SECOND_NS]
    assert max(around) < 2 * MESSAGE_NS, "results go on, and the next attempt's first message follows the last one"
    cluster.close()
