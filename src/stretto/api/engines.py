"""Chooses the engine of a plan, with the reason: actors, or Spark's micro-batches when the objective is lax."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from stretto.api.slo import SLO
from stretto.errors import PlanError

LAX_FACTOR = 5
"""Micro-batches are chosen when the latency objective is at least this many trigger times."""


class Engine(Enum):
    """How an app runs."""

    AUTO = "auto"
    ACTORS = "actors"
    MICROBATCH = "microbatch"

    @staticmethod
    def named(name: str | Engine) -> Engine:
        try:
            return Engine(name)
        except ValueError:
            known = ", ".join(repr(engine.value) for engine in Engine)
            raise PlanError(f"there is no engine {name!r}", None, f"Choose one of {known}.") from None


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The engine and the reason, for `explain()` and the job handle."""

    engine: Engine
    why: str


def choose(slo: SLO, unsupported: str | None, trigger_s: float | None) -> EngineChoice:
    """Returns the choice of `auto`. `unsupported` is why micro-batches cannot express the plan, or None."""
    if unsupported is not None:
        return EngineChoice(Engine.ACTORS, f"micro-batches cannot express it: {unsupported}")
    if slo.latency_ms is None:
        return EngineChoice(Engine.ACTORS, "it has no latency objective, which micro-batches need")
    if trigger_s is None:
        return EngineChoice(
            Engine.ACTORS, "the trigger time of micro-batches is unknown here (it is measured on a cluster)"
        )
    needed_ms = LAX_FACTOR * trigger_s * 1000
    compared = (
        f"the objective of {slo.latency_ms:g} ms is {{}} {LAX_FACTOR} x the trigger time of {trigger_s * 1000:.0f} ms"
    )
    if slo.latency_ms >= needed_ms:
        return EngineChoice(Engine.MICROBATCH, "the plan is relational and " + compared.format("at least"))
    return EngineChoice(Engine.ACTORS, compared.format("less than"))
