"""Henge as a controller among others: what it sees of an observation, every ten seconds.

How a job stands is measured over the whole time since the last look (`observation/longer.py`): the interval of one
observation is a fraction of a second, too short for a percentile.
"""

from __future__ import annotations

from stretto.elasticity.controller import Controller
from stretto.elasticity.intents import IntentView
from stretto.elasticity.records import DecisionRecord
from stretto.elasticity.standings import standings_since
from stretto.elasticity.subjects import Subject
from stretto.elasticity.transfers import Goal
from stretto.elasticity.utility_controller import IntentMachine
from stretto.elasticity.view import ElasticView
from stretto.observation.model import Observation

EVERY_NS = 10_000_000_000


class IntentController(Controller):
    """Moves capacity between jobs so that the total of their utilities rises (thesis 3.2)."""

    name = "henge"
    every_ns = EVERY_NS
    effect_ns = 2 * EVERY_NS
    looks_at = Subject.OBJECTIVES
    goal = Goal.TOTAL

    def __init__(self) -> None:
        self._machine = IntentMachine(self.name, self.goal)
        self._before: Observation | None = None

    def decide(self, view: ElasticView, now_ns: int) -> list[DecisionRecord]:
        seen = self._seen(view.observed)
        return self._machine.decide(seen, now_ns) if seen is not None else []

    def _seen(self, observed: Observation) -> IntentView | None:
        """Returns how jobs stand since the last look; None at the first one."""
        before, self._before = self._before, observed
        found = None if before is None else standings_since(observed, before)
        return found if found is not None and found.jobs else None


class FairIntentController(IntentController):
    """Likewise, so that the least utility of any job rises."""

    name = "henge-fair"
    goal = Goal.FAIR
