"""The base of all controllers: a view in, records of decisions out. A user's own is a small class that overrides one
method; `examples/own_controller.py` is one, complete and tested.
"""

from __future__ import annotations

from collections.abc import Mapping

from stretto.elasticity.decisions import AddWorkers, Decision, DrainWorker, Repartition
from stretto.elasticity.effects import values_of
from stretto.elasticity.records import Candidate, DecisionRecord, Trigger
from stretto.elasticity.subjects import Subject
from stretto.elasticity.view import ActorView, ElasticView


class Controller:
    """Override `decide`. It is called every `every_ns`, and again with what came of its decisions in the next view.

    A controller may keep what it has seen, but has no clock, no files and no randomness of its own, so that a simulated
    run can be repeated. It leaves an actor alone whose `may_change` is False. `effect_ns` is how long it takes until
    the effect of its decisions is measured; slower controllers leave the actor alone until then. One that is
    `asked_first` decides by values that do not depend on where shards are, and waits for no other. It is asked only
    while some running job has what it `looks_at`."""

    name = ""
    every_ns = 500_000_000
    effect_ns = 1_000_000_000
    asked_first = False
    looks_at = Subject.ELASTIC_FUNCTIONS

    def __init_subclass__(cls) -> None:
        cls.name = cls.__dict__.get("name") or cls.__name__

    def decide(self, view: ElasticView, now_ns: int) -> list[DecisionRecord]:
        """Returns what to do now, each decision in a record; at most one decision per actor."""
        return []

    def record(
        self,
        actor: ActorView,
        now_ns: int,
        because: str,
        decision: Decision | None = None,
        trigger: Trigger = Trigger.OWN,
        seen: Mapping[str, float] | None = None,
        candidates: tuple[Candidate, ...] = (),
    ) -> DecisionRecord:
        """Returns a record about an actor with the values that are seen of it now, and more in `seen`."""
        address = actor.address
        return DecisionRecord(
            now_ns,
            self.name,
            address.job,
            address.function,
            None if isinstance(decision, Repartition) else address.partition,
            trigger,
            because,
            {**values_of(actor), **(seen or {})},
            candidates,
            decision,
            None if decision is None else now_ns + self.effect_ns,
        )

    def cluster_record(
        self,
        now_ns: int,
        because: str,
        decision: AddWorkers | DrainWorker | None = None,
        trigger: Trigger = Trigger.OWN,
        seen: Mapping[str, float] | None = None,
        candidates: tuple[Candidate, ...] = (),
    ) -> DecisionRecord:
        """Returns a record about the workers of the cluster."""
        return DecisionRecord(now_ns, self.name, "", "", None, trigger, because, seen or {}, candidates, decision)
