"""What users ask for while jobs run, as decisions: they are carried out and recorded like those of controllers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from stretto.coordinator.events import (
    DrainRequested,
    LesseesRequested,
    MoveShardsRequested,
    ObjectiveRequested,
    RedirectRequested,
    RescaleRequested,
    ScaleInRequested,
    ScaleOutRequested,
)
from stretto.coordinator.part import Handlers, Host, Part
from stretto.coordinator.records import Job
from stretto.elasticity.decisions import (
    AddWorkers,
    Decision,
    DrainWorker,
    EndBurst,
    MoveShards,
    RedirectBurst,
    Redirection,
    Repartition,
    SetLessees,
    SetObjective,
    ShardMove,
)
from stretto.elasticity.records import DecisionRecord, Trigger


class Decisions(Protocol):
    """Whoever has decisions carried out."""

    def enact(self, record: DecisionRecord, token: str = "") -> None: ...

    def refuse(self, record: DecisionRecord, reason: str, token: str = "") -> None: ...


class Leavers(Protocol):
    """Whoever knows which workers would leave."""

    def leavers(self, count: int) -> tuple[list[str], str | None]: ...

    def announce(self, members: Iterable[str]) -> None: ...

    def leaves(self, member: str) -> bool: ...


class WarmWorkers(Protocol):
    """Whoever knows which transient workers have loaded a job."""

    def warm(self, job: Job) -> list[str]: ...


class UserRequests(Part):
    """Requests of users, each with the token that the user knows it by."""

    def __init__(self, host: Host, decisions: Decisions, drains: Leavers, transients: WarmWorkers) -> None:
        self._host = host
        self._decisions = decisions
        self._drains = drains
        self._transients = transients

    def events(self) -> Handlers:
        return {
            MoveShardsRequested: self._on_move_shards,
            LesseesRequested: self._on_lessees,
            RescaleRequested: self._on_rescale,
            ObjectiveRequested: self._on_objective,
            RedirectRequested: self._on_redirect,
            ScaleOutRequested: self._on_scale_out,
            ScaleInRequested: self._on_scale_in,
            DrainRequested: self._on_drain,
        }

    def _on_move_shards(self, event: MoveShardsRequested) -> None:
        moves = tuple(ShardMove(shard, "", target) for shard, target in event.moves)
        decision = MoveShards(event.job, event.function, event.partition, moves)
        self._ask(decision, event.token, event.job, event.function, event.partition)

    def _on_lessees(self, event: LesseesRequested) -> None:
        decision = SetLessees(event.job, event.function, event.lessees)
        self._ask(decision, event.token, event.job, event.function)

    def _on_rescale(self, event: RescaleRequested) -> None:
        """A user gives functions another parallelism."""
        (function, parallelism), *others = sorted(event.parallelism.items())
        self._ask(Repartition(event.job, function, parallelism, tuple(others)), event.token, event.job, function)

    def _on_objective(self, event: ObjectiveRequested) -> None:
        """A user has a job promise something else. The record has what it promised before."""
        job = self._host.jobs.get(event.job)
        seen = {} if job is None or job.objective is None else job.objective.figures()
        record = replace(self._asked(SetObjective(event.job, event.objective), event.job), seen=seen)
        self._decisions.enact(record, event.token)

    def _on_redirect(self, event: RedirectRequested) -> None:
        """A user has batches run on transient workers, or all of them at home again."""
        if not event.functions:
            self._ask(EndBurst(event.job), event.token, event.job)
            return
        job = self._host.jobs.get(event.job)
        warm = tuple(self._transients.warm(job)) if job is not None else ()
        redirections = tuple(
            Redirection(function, to.members or warm[: event.count], to.share)
            for function, to in sorted(event.functions.items())
        )
        decision = RedirectBurst(event.job, redirections)
        if event.count is not None and event.count > len(warm):
            why = f"{event.count} transient workers are needed, and {len(warm)} have loaded the job"
            self._decisions.refuse(self._asked(decision, event.job), why, event.token)
            return
        self._ask(decision, event.token, event.job)

    def _on_scale_out(self, event: ScaleOutRequested) -> None:
        self._ask(AddWorkers(event.count, event.transient), event.token)

    def _on_scale_in(self, event: ScaleInRequested) -> None:
        """A user has workers leave, all of them or none."""
        members, why = self._drains.leavers(event.count)
        if why is not None:
            for member in members:
                self._decisions.refuse(self._asked(DrainWorker(member)), why, event.token)
            return
        leaving = list(members)
        for member in members:
            self._drains.announce(leaving)
            self._decisions.enact(self._asked(DrainWorker(member)), event.token)
            if not self._drains.leaves(member):
                leaving.remove(member)  # It was refused: homes may move there.
        self._drains.announce(())

    def _on_drain(self, event: DrainRequested) -> None:
        self._ask(DrainWorker(event.name), event.token)

    def _ask(
        self, decision: Decision, token: str, job: str = "", function: str = "", partition: int | None = None
    ) -> None:
        self._decisions.enact(self._asked(decision, job, function, partition), token)

    def _asked(
        self, decision: Decision, job: str = "", function: str = "", partition: int | None = None
    ) -> DecisionRecord:
        """Returns the record of what a user wants of a function, or of the cluster."""
        about = (job, function, partition)
        return DecisionRecord(self._host.now_ns, "user", *about, Trigger.ASKED, "it was asked for", decision=decision)
