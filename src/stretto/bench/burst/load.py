"""The stream of a query with a burst: as usual, several times as many events, and as usual again."""

from __future__ import annotations

import math
from dataclasses import dataclass

from stretto.bench.burst.queries import query_of
from stretto.bench.nexmark.events import NexmarkConfig, Surge
from stretto.bench.nexmark.workload import Workload

SECOND_NS = 1_000_000_000
TARGET = 0.7
"""How busy workers are to be."""
AUCTION_S, AUCTIONS_PER_EVENT, AUCTIONS_MIN = 6.0, 0.06, 30
"""Auctions close after about so many seconds: query 4 has results then, and all have enough keys at any time."""


@dataclass(frozen=True)
class BurstLoad:
    """What to run: a query on `workers` ordinary workers that its rows keep `busy`, and for `burst_s` seconds `times`
    as many. A row waits `row_us`, and `rows` of them are a batch. Keys are not skewed, so that both workers have the
    same load before the burst."""

    query: str
    before_s: float = 20.0
    burst_s: float = 15.0
    after_s: float = 15.0
    times: int = 5
    busy: float = 0.55
    row_us: float = 5_000.0
    rows: int = 8
    workers: int = 2
    transient: int = 12
    seed: int = 1

    @property
    def rate(self) -> float:
        """Events per second before the burst."""
        worked = query_of(self.query)
        return self.busy * self.workers * 1e6 / (worked.rows_per_event * worked.times * self.row_us)

    @property
    def cores(self) -> int:
        """How many workers the burst takes."""
        return math.ceil(self.times * self.busy * self.workers / TARGET)

    @property
    def config(self) -> NexmarkConfig:
        first, burst = round(self.rate * self.before_s), round(self.rate * self.burst_s * self.times)
        return NexmarkConfig(
            seed=self.seed,
            events=first + burst + round(self.rate * self.after_s),
            event_rate=max(1, round(self.rate)),
            surge=Surge(first, first + burst, self.times),
            hot_auction_ratio=1,
            hot_bidder_ratio=1,
            hot_seller_ratio=1,
            in_flight_auctions=max(AUCTIONS_MIN, round(AUCTION_S * self.rate * AUCTIONS_PER_EVENT)),
        )

    def workload(self, begins_ns: int) -> Workload:
        """Returns the workload whose first event comes at a moment."""
        batch = max(1, round(self.rows / min(1.0, query_of(self.query).rows_per_event)))
        return Workload(self.config, self.rate, self.workers, batch, block=batch, begins_ns=begins_ns)
