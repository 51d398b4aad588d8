"""What the coordinator announces, for whoever watches the cluster: kept until it is taken, in bounded memory."""

from __future__ import annotations

import threading
from collections import deque

from stretto.elasticity.records import DecisionRecord
from stretto.observation.model import Observation

OBSERVATIONS_KEPT = 16
RECORDS_KEPT = 4_000


class Announcements:
    """Observations and records of decisions, put by the coordinator's thread and taken by one that watches. Of what is
    not taken in time, the oldest is dropped: the coordinator does not wait."""

    def __init__(self) -> None:
        self._observations: deque[Observation] = deque(maxlen=OBSERVATIONS_KEPT)
        self._records: deque[DecisionRecord] = deque(maxlen=RECORDS_KEPT)
        self._lock = threading.Lock()

    def observed(self, observation: Observation) -> None:
        with self._lock:
            self._observations.append(observation)

    def decided(self, record: DecisionRecord) -> None:
        with self._lock:
            self._records.append(record)

    def take(self) -> tuple[list[Observation], list[DecisionRecord]]:
        """Returns what was announced since this was last called, in order."""
        with self._lock:
            taken = list(self._observations), list(self._records)
            self._observations.clear()
            self._records.clear()
        return taken
