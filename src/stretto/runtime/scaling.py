"""Workers that are added to a running cluster and leave it: the slots that they hold, and who waits for them.

Users ask here, controllers ask the coordinator; either way the coordinator decides and has workers started. A worker is
one more Spark job. With Spark's dynamic allocation on, Spark brings an executor for it, which may take a while.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from stretto.coordinator.events import (
    AnnounceDecision,
    DrainRequested,
    Event,
    GiveUpWorker,
    ScaleInRequested,
    ScaleOutRequested,
    StartFailed,
    StartWorker,
)
from stretto.coordinator.membership import worker_of
from stretto.elasticity.decisions import DrainWorker
from stretto.elasticity.records import DecisionRecord, Outcome
from stretto.errors import ClusterError
from stretto.protocol.membership import Member
from stretto.runtime.slots import require_more_slots, take_slots
from stretto.runtime.starting import Coming, Start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("stretto.cluster")

POLL_S = 1.0
DECISIONS_KEPT = 1_000
HOW_LEAVING_WORKS = (
    "It leaves by itself once nothing is there: shards move at once, lessees end at the next barrier (a watermark or a "
    "checkpoint). Wait longer, or stop the jobs on it."
)


class HostedWorker(Coming, Protocol):
    """The Spark job of a worker."""

    def cancel(self) -> None: ...


class Hosts(Protocol):
    """The cluster, which hosts workers."""

    id: str
    spark: SparkSession

    @property
    def hosted(self) -> Sequence[HostedWorker]: ...

    @property
    def workers(self) -> list[Member]: ...

    @property
    def transient_workers(self) -> list[Member]: ...

    def host(self, member: str, transient: bool = ...) -> None: ...

    def request(self, event: Event) -> None: ...


class Scaling:
    """The workers of one cluster that come and go. All methods may be called from any thread."""

    def __init__(self, cluster: Hosts) -> None:
        self._cluster = cluster
        self._changed = threading.Condition()
        self._one_at_a_time = threading.Lock()
        self._records: OrderedDict[int, DecisionRecord] = OrderedDict()
        self._answers: dict[str, dict[int, DecisionRecord]] = {}
        """What became of each request of a user who waits, by its token and the number of the decision."""
        self._added: list[str] = []
        self._abandoned: set[str] = set()
        """Workers that did not come in time: they are not replaced."""
        self._closed = False

    def close(self) -> None:
        """Nobody waits any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # What the coordinator says.

    def record(self, announced: AnnounceDecision) -> None:
        """Notes what became of a decision about the workers of the cluster."""
        decision, outcome = announced.record.decision, announced.record.outcome
        if isinstance(decision, DrainWorker) and outcome is Outcome.DONE:
            take_slots(self._cluster.spark, self._cluster.id, -1)
        with self._changed:
            self._records[announced.number] = announced.record
            while len(self._records) > DECISIONS_KEPT:
                self._records.popitem(last=False)
            if announced.token in self._answers:
                self._answers[announced.token][announced.number] = announced.record
            self._changed.notify_all()

    def decisions(self) -> list[DecisionRecord]:
        """Returns the last decisions about the workers of the cluster."""
        with self._changed:
            return list(self._records.values())

    def is_leaving(self, member: str) -> bool:
        """Whether a worker is to leave, so that the end of its task is no loss."""
        begun = (Outcome.PENDING, Outcome.DONE)
        return any(each.decision == DrainWorker(member) and each.outcome in begun for each in self.decisions())

    def is_abandoned(self, member: str) -> bool:
        """Whether a worker did not come in time, so that it is not to be started again."""
        return worker_of(member) in self._abandoned

    def start(self, effect: StartWorker) -> None:
        """Starts one more worker, if Spark has a slot for it. The coordinator must not wait for Spark: called in a
        thread of its own."""
        if not take_slots(self._cluster.spark, self._cluster.id, 1):
            self._cluster.request(StartFailed(effect.name, "Spark has no free slot for another worker"))
            return
        with self._changed:
            self._added.append(worker_of(effect.name))
        self._cluster.host(effect.name, effect.transient)

    def give_up(self, effect: GiveUpWorker) -> None:
        """Ends the Spark job of a worker that has not come in time, which may wait for a slot for good."""
        self._abandoned.add(effect.name)
        for host in self._cluster.hosted:
            if worker_of(host.member) == effect.name:
                host.cancel()
        take_slots(self._cluster.spark, self._cluster.id, -1)

    # Users.

    def out(self, count: int, timeout_s: float, transient: bool = False) -> list[Member]:
        """Adds workers and returns them, once all have joined."""
        if count < 1:
            raise ClusterError("there is no worker to add", f"count={count}", "Use one or more.")
        with self._one_at_a_time:
            require_more_slots(self._cluster.spark, count)
            with self._changed:
                self._added = []
            start = Start(self._cluster.spark, count, timeout_s)
            records = self._asked(
                lambda token: ScaleOutRequested(count, token, transient),
                1,
                lambda: start.check(self._missing()),
                self._abandon,
            )
            self._check(records, f"{count} workers were not added", "Look at the executors' logs.")
            return [member for member in self._members() if worker_of(member.name) in self._added]

    def drain(self, member: str, timeout_s: float) -> None:
        """Has a worker leave, and returns when its slot is free."""
        self._leave(lambda token: DrainRequested(member, token), 1, timeout_s, f"worker {member}")

    def leave(self, count: int, timeout_s: float) -> list[str]:
        """Has so many workers leave, and returns their names when their slots are free."""
        if count < 1:
            raise ClusterError("there is no worker to drain", f"count={count}", "Use one or more.")
        who = "a worker" if count == 1 else f"{count} workers"
        return self._leave(lambda token: ScaleInRequested(count, token), count, timeout_s, who)

    def _leave(self, request: Callable[[str], Event], count: int, timeout_s: float, who: str) -> list[str]:
        deadline_s = time.monotonic() + timeout_s

        def check() -> None:
            if time.monotonic() >= deadline_s:
                raise ClusterError(f"{who} has not left within {timeout_s:g} s", None, HOW_LEAVING_WORKS)

        records = self._asked(request, count, check, lambda: None)
        self._check(records, f"{who} cannot leave", "Let the jobs there end, or name another worker.")
        return [record.decision.member for record in records if isinstance(record.decision, DrainWorker)]

    def _asked(
        self,
        request: Callable[[str], Event],
        count: int,
        check: Callable[[], None],
        give_up: Callable[[], None],
    ) -> list[DecisionRecord]:
        """Sends a request and waits for what became of its `count` decisions; `check` raises when it takes too long,
        and then `give_up` takes back what can be."""
        token = secrets.token_hex(8)
        with self._changed:
            self._answers[token] = {}
        try:
            self._cluster.request(request(token))
            while not self._settled(token, count):
                check()
        except BaseException:
            give_up()
            raise
        finally:
            with self._changed:
                records = list(self._answers.pop(token).values())
        return records

    def _settled(self, token: str, count: int) -> bool:
        """Waits a while, and returns whether all decisions of a request are settled, or one has failed."""

        def settled() -> bool:
            found = [record.outcome for record in self._answers[token].values()]
            failed = Outcome.REFUSED in found or Outcome.FAILED in found
            return self._closed or failed or (len(found) >= count and Outcome.PENDING not in found)

        with self._changed:
            return self._changed.wait_for(settled, POLL_S)

    def _check(self, records: list[DecisionRecord], fact: str, fix: str) -> None:
        bad = [record for record in records if record.outcome is not Outcome.DONE]
        if bad:
            raise ClusterError(fact, bad[0].outcome_reason or "the cluster was closed", fix)
        if not records:
            raise ClusterError(fact, "the cluster was closed", None)

    def _members(self) -> list[Member]:
        return [*self._cluster.workers, *self._cluster.transient_workers]

    def _missing(self) -> list[HostedWorker]:
        """Returns the added workers that have not joined. One that ended is being replaced under another name."""
        joined = {member.name for member in self._members()}
        last = {worker_of(host.member): host for host in self._cluster.hosted}
        with self._changed:
            added = list(self._added)
        return [last[name] for name in added if name in last and last[name].member not in joined]

    def _abandon(self) -> None:
        """Gives up the workers that have not come: their Spark jobs are cancelled, and their slots are free."""
        for host in self._missing():
            self._abandoned.add(worker_of(host.member))
            self._cluster.request(StartFailed(host.member, "it did not come in time"))
            host.cancel()
            take_slots(self._cluster.spark, self._cluster.id, -1)
