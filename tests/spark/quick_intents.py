"""Henge that looks every second, for tests that wait for what it does."""

from __future__ import annotations

from stretto.elasticity.intent_controller import IntentController
from stretto.elasticity.utility_controller import SECOND_NS, IntentMachine, IntentSettings


class QuickIntents(IntentController):
    name = "quick"
    every_ns = SECOND_NS
    effect_ns = 2 * SECOND_NS

    def __init__(self) -> None:
        super().__init__()
        self._machine = IntentMachine(self.name, self.goal, IntentSettings(settle_ns=2 * SECOND_NS))
