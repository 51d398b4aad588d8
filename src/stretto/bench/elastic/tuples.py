"""The generator of the micro-benchmark (elasticutor.txt 5.1): tuples of an integer key and a payload.

The frequencies of keys follow Zipf's distribution. They are shuffled `shuffles_per_minute` times in a minute of event
time (the paper's omega): each time, a random permutation says which key has which rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from stretto.bench.draws import Int64s
from stretto.bench.elastic.numbered import EPOCH_US, TIME, Numbered
from stretto.bench.elastic.padding import padding
from stretto.bench.elastic.zipf import permutation, places, zipf_weights
from stretto.errors import UserError

MINUTE_US = 60_000_000


@dataclass(frozen=True)
class Tuples(Numbered):
    """The tuples. The defaults are the paper's default workload."""

    key_count: int = 10_000
    skew: float = 0.5
    shuffles_per_minute: float = 2.0
    payload_bytes: int = 128

    schema: ClassVar[pa.Schema] = pa.schema(
        [("t", TIME), ("number", pa.int64()), ("key", pa.int64()), ("payload", pa.binary())]
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shuffles_per_minute < 0 or self.payload_bytes < 0:
            numbers = f"{self.shuffles_per_minute:g} shuffles, {self.payload_bytes} bytes"
            raise UserError("shuffles per minute and bytes of the payload must not be negative", numbers)
        zipf_weights(self.key_count, self.skew)

    def shuffle_of(self, numbers: Int64s) -> Int64s:
        """Returns how many shuffles there were before each event."""
        if not self.shuffles_per_minute:
            return np.zeros_like(numbers)
        period_us = max(1, round(MINUTE_US / self.shuffles_per_minute))
        shuffles: Int64s = (self.times_us(numbers) - EPOCH_US) // period_us
        return shuffles

    def keys(self, numbers: Int64s) -> Int64s:
        ranks = places(self.draw("key", numbers), zipf_weights(self.key_count, self.skew))
        shuffles = self.shuffle_of(numbers)
        keys = np.empty_like(ranks)
        for shuffle in np.unique(shuffles).tolist():
            mine = shuffles == shuffle
            keys[mine] = permutation(self.seed, shuffle, self.key_count)[ranks[mine]]
        return keys

    def rows(self, numbers: Int64s) -> pa.RecordBatch:
        columns = [
            pa.array(self.times_us(numbers)).view(TIME),
            pa.array(numbers),
            pa.array(self.keys(numbers)),
            padding(self.draw("payload", numbers), self.payload_bytes),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)
