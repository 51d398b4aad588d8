"""A watcher of simulations, which keeps what the last cluster has announced for a report."""

from __future__ import annotations

from stretto.dashboard.history import History
from stretto.dashboard.report import write_report
from stretto.elasticity.records import DecisionRecord
from stretto.errors import UserError
from stretto.observation.model import Observation


class SimulationRecording:
    """Begins again with each cluster."""

    def __init__(self) -> None:
        self.history = History()
        self.clusters = 0

    def begins(self) -> None:
        self.history = History()
        self.clusters += 1

    def observed(self, observation: Observation) -> None:
        self.history.observe(observation)

    def decided(self, record: DecisionRecord) -> None:
        self.history.decide(record)

    def write_report(self, path: str) -> None:
        """Writes the page of the last cluster. Its times are virtual seconds."""
        if not self.history.jobs:
            raise UserError(
                "there is nothing to report",
                f"{self.clusters} clusters were simulated, and no job of the last one was observed",
                "This command computes without a cluster, or its cluster hosts entities only.",
            )
        title = "simulated cluster" if self.clusters == 1 else f"simulated cluster, the last of {self.clusters}"
        write_report(path, self.history, title, "run")
