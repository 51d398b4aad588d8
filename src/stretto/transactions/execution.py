"""Runs the handlers of transactions on one worker (styx.txt 6), in the dry run and in the fallback.

A transaction runs in **waves**: what its handlers call and return in a wave is there in the next one, on this worker or
another. Within a wave, a worker runs what it has for a transaction in the order of the paths in its tree of calls. So
what a transaction does follows from the state that it began with, and neither from the delays of messages nor from
where its entities are: that makes a replay give the same replies. As long as a transaction is on one worker only, which
its acknowledgement shares tell, its waves need no message and follow each other at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stretto.errors import InvariantError, StrettoError, UserError
from stretto.protocol.transactions import (
    Acknowledged,
    EntityName,
    Failure,
    Invoke,
    Path,
    Request,
    Returned,
)
from stretto.transactions.activation import MadeCall
from stretto.transactions.catalog import Catalog
from stretto.transactions.conflicts import Sets
from stretto.transactions.delayed import WAITING_MAX, Delayed, delayed_by
from stretto.transactions.emitted import Emission
from stretto.transactions.invocation import Invocation, Step, failure_of
from stretto.transactions.locks import Locks
from stretto.transactions.placement import Placement
from stretto.transactions.sequencing import worker_of
from stretto.transactions.shares import WHOLE, Shares

NOTHING = b"\xc0"
"""What a delayed call returns to who has scheduled it: None, as msgpack."""


class Root:
    """What the worker of a transaction knows of it: on which workers it ran, and how it ended."""

    __slots__ = ("complete", "failures", "is_new", "participants", "value")

    def __init__(self) -> None:
        self.complete = False
        """Whether nothing of it runs, on any worker."""
        self.participants: set[int] = set()
        self.value: bytes | None = None
        self.failures: dict[Path, Failure] = {}
        self.is_new = False

    @property
    def failure(self) -> Failure | None:
        """Of several failures, the first in the tree of calls: the same whatever came first."""
        return self.failures[min(self.failures)] if self.failures else None


class Part:
    """What a transaction does on this worker."""

    __slots__ = (
        "after",
        "before",
        "delayed",
        "emitted",
        "failures",
        "instances",
        "invocations",
        "is_new",
        "live",
        "runs_here",
        "shares",
        "tid",
        "waiting",
    )

    def __init__(self, tid: int) -> None:
        self.tid = tid
        self.shares = Shares()
        self.live = 0
        """How many invocations run here, or wait for the next wave here."""
        self.runs_here = False
        """Whether any has."""
        self.waiting: list[tuple[int, Invoke | Returned]] = []
        """For the next wave, with the sender."""
        self.invocations: dict[Path, Invocation] = {}
        self.instances: dict[EntityName, Any] = {}
        self.delayed: list[Delayed] = []
        """Calls that are scheduled here if the transaction commits."""
        self.emitted: list[Emission] = []
        """Rows that it emits here if it commits, in the order in which it has."""
        self.before: dict[EntityName, bytes | None] = {}
        self.after: dict[EntityName, bytes | None] = {}
        self.failures: list[tuple[Path, Failure]] = []
        """What the root does not know yet, as `is_new`."""
        self.is_new = False

    def writes(self) -> dict[EntityName, bytes | None]:
        """Returns what it changes here; None: the entity is not there any more."""
        before = self.before
        return {name: state for name, state in self.after.items() if state != before[name]}

    def sets(self) -> Sets:
        return Sets(self.before.keys(), self.writes().keys())


@dataclass
class Outgoing:
    """What goes to one other worker."""

    calls: list[Invoke] = field(default_factory=list)
    returns: list[Returned] = field(default_factory=list)
    shares: list[Acknowledged] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.calls or self.returns or self.shares)


class Execution:
    """The transactions of one phase of an epoch, as far as they are on this worker.

    `locks` are those that a transaction must keep to, in the fallback; `state` the entities' committed fields."""

    def __init__(
        self,
        worker: int,
        placement: Placement,
        catalog: Catalog,
        state: Mapping[EntityName, bytes],
        locks: Locks | None = None,
    ) -> None:
        self._worker = worker
        self._placement = placement
        self._catalog = catalog
        self._state = state
        self._locks = locks
        self.roots: dict[int, Root] = {}
        self.parts: dict[int, Part] = {}
        self._outgoing: dict[int, Outgoing] = {}
        self.stopped: frozenset[str] = frozenset()
        """The seeds of transactions that are aborted when they come here, since they ran out of time."""
        self.refuses_delayed = False
        """Whether there is no room for more delayed calls here."""
        self.refuses_rows = False
        """Whether there is no room for more rows of streams here."""
        self._waiting: set[int] = set()
        """Transactions that have something for the next wave."""
        self._ran: set[int] = set()
        """Transactions that have run a wave in this round."""
        self._completed: list[int] = []

    # What comes in.

    def begin(self, tid: int, request: Request, at_us: int, seed: str) -> None:
        """A transaction of this worker begins. Its entity may be on another one: calls with an idempotency key are
        where their key is."""
        self.roots[tid] = Root()
        worker = self._worker if request.key is None else self._placement.worker_of(request.entity)
        if worker == self._worker:
            self.deliver(worker, Invoke(tid, (), request, WHOLE, at_us, seed))
            return
        part = self.parts[tid] = Part(tid)
        part.shares.add(WHOLE)
        self._to(worker).calls.append(Invoke(tid, (), request, part.shares.halve(), at_us, seed))

    def deliver(self, sender: int, item: Invoke | Returned | Acknowledged) -> None:
        """Something has come from a worker, for the next wave; shares count at once."""
        if isinstance(item, Acknowledged):
            self._acknowledge(sender, item)
            return
        tid = item.tid
        if isinstance(item, Returned) and item.path == ():
            self.roots[tid].value = item.value
            return
        part = self.parts.get(tid)
        if part is None:
            part = self.parts[tid] = Part(tid)
        if isinstance(item, Invoke):
            part.live += 1
            part.runs_here = True
            part.shares.add(item.share)
        part.waiting.append((sender, item))
        self._waiting.add(tid)

    def _acknowledge(self, sender: int, item: Acknowledged) -> None:
        part, root = self.parts[item.tid], self.roots[item.tid]
        for share in item.shares:
            part.shares.add(share)
        if part.shares.is_too_much:
            raise InvariantError(f"transaction {item.tid} has more shares than there are", str(part.shares.take()))
        root.participants.add(sender)
        root.is_new |= item.is_new
        root.failures.update(item.failures)
        self._note_end(part, root)

    # Running.

    def run(self) -> None:
        """Run the next wave of every transaction, and all waves of those that are on this worker only. Called again
        before `take_outgoing`, it runs only what has begun since: the others are not further on other workers."""
        for tid in sorted(self._waiting):
            part = self.parts[tid]
            if self._may_run(tid):
                self._ran.add(tid)
                self._wave(part)
            while part.waiting and self._is_alone(part):
                self._wave(part)
            if not part.waiting:
                self._waiting.discard(tid)

    def _may_run(self, tid: int) -> bool:
        return tid not in self._ran

    @property
    def has_work(self) -> bool:
        return bool(self._waiting)

    def take_outgoing(self) -> dict[int, Outgoing]:
        """Returns what goes to other workers. The next round begins."""
        self._ran.clear()
        outgoing, self._outgoing = self._outgoing, {}
        return outgoing

    def take_completed(self) -> list[int]:
        """Returns the transactions of this worker that have ended since this was last called."""
        completed, self._completed = self._completed, []
        return completed

    def drop(self, tid: int) -> Part | None:
        """Returns the part of a transaction, which is not run any further."""
        self._waiting.discard(tid)
        return self.parts.pop(tid, None)

    def _is_alone(self, part: Part) -> bool:
        return part.shares.is_whole

    def _wave(self, part: Part) -> None:
        items, part.waiting = part.waiting, []
        if len(items) > 1:
            items.sort(key=_path_of)
        for sender, item in items:
            if isinstance(item, Invoke):
                self._start(part, sender, item)
            else:
                self._resume(part, item)

    def _start(self, part: Part, caller: int, invoke: Invoke) -> None:
        name = invoke.request.entity
        is_delayed = invoke.request.after_us > 0
        if self._locks is not None and not is_delayed and not self._locks.may_use(invoke.tid, name):
            self._end(part, caller, invoke, Step(ended=True), is_new=True)
            return
        try:
            if invoke.seed in self.stopped:
                raise out_of_time(invoke.request)
            kind = self._catalog.kind(name.kind)
            method = kind.method(invoke.request.method)
            if is_delayed:
                self._schedule(part, caller, invoke)
                return
            instance = part.instances.get(name)
            if instance is None:
                before = part.before[name] = part.after[name] = self._state.get(name)
                instance = part.instances[name] = kind.instance(name.key, before)
            must_stay = kind.fields(instance) if method.only_reads else b""
        except UserError as error:
            self._end(part, caller, invoke, Step(ended=True, failure=failure_of(error, name)))
            return
        invocation = Invocation(invoke, caller, instance, kind, method, self._catalog)
        invocation.must_stay = must_stay
        self._follow(part, invocation, invocation.start())

    def _schedule(self, part: Part, caller: int, invoke: Invoke) -> None:
        """A delayed call has come. It touches nothing, so that it conflicts with nothing."""
        if self.refuses_delayed:
            error = UserError("too many delayed calls wait", f"the limit is {WAITING_MAX:,} for each worker")
            self._end(part, caller, invoke, Step(ended=True, failure=failure_of(error, invoke.request.entity)))
            return
        part.delayed.append(delayed_by(invoke))
        self._end(part, caller, invoke, Step(ended=True, value=NOTHING))

    def _resume(self, part: Part, returned: Returned) -> None:
        caller = part.invocations.get(returned.path[:-1])
        if caller is None:
            return  # It has not waited for the result.
        if returned.failed:
            caller.close()
            self._follow(part, caller, Step(ended=True), is_failed=True)
            return
        assert returned.value is not None
        made = caller.made(returned.path[-1])
        method = self._catalog.kind(made.kind).method(made.method)
        try:
            value = None if made.after_us else method.decode_result(returned.value)
            step = caller.resume(made.index, value)
        except UserError as error:
            caller.close()
            step = Step(ended=True, failure=failure_of(error, caller.entity))
        if step is not None:
            self._follow(part, caller, step)

    def _follow(self, part: Part, invocation: Invocation, step: Step, is_failed: bool = False) -> None:
        """Send what a step has called, and what it has returned if it was the last one."""
        is_new = False
        if step.rows:
            step = self._emit(part, invocation, step)
        if step.ended and step.failure is None and not is_failed:
            step, is_new = self._kept(part, invocation, step)
        for made in step.calls:
            self._call(part, invocation, made, not step.ended)
        if step.ended:
            part.invocations.pop(invocation.path, None)
            self._end(part, invocation.caller, invocation.invoke, step, is_new, is_failed)
        else:
            part.invocations[invocation.path] = invocation

    def _emit(self, part: Part, invocation: Invocation, step: Step) -> Step:
        """Note the rows that a step has emitted. Returns the step, which fails if there is no room for them."""
        if not self.refuses_rows:
            part.emitted += step.rows
            return step
        invocation.close()
        error = UserError(
            "too many emitted rows wait to be read",
            f"stream '{step.rows[0].stream}' and others have not read them, or taken no checkpoint since",
            "Give the streams more workers, or take checkpoints more often (every=).",
        )
        return Step(ended=True, failure=failure_of(error, invocation.entity))

    def _kept(self, part: Part, invocation: Invocation, step: Step) -> tuple[Step, bool]:
        """Note the fields that a handler leaves behind. Returns the step, which fails if they are wrong, and whether
        the transaction has written what it has no lock for."""
        name, kind = invocation.entity, invocation.kind
        before = part.before[name]
        try:
            after = kind.encode(invocation.instance, before)
            if invocation.method.only_reads and kind.fields(invocation.instance) != invocation.must_stay:
                raise UserError(f"{name.kind}.{invocation.method.name} only reads", "it has changed a field")
        except StrettoError as error:
            return Step(ended=True, failure=failure_of(error, name)), False
        part.after[name] = after
        if self._locks is not None and after != before and not self._locks.may_write(part.tid, name):
            return Step(ended=True), True
        return step, False

    def _call(self, part: Part, caller: Invocation, made: MadeCall, is_awaited: bool) -> None:
        name = EntityName(made.kind, made.key)
        path = (*caller.path, made.index)
        request = Request(name, made.method, made.arguments, None, made.after_us)
        worker = self._placement.worker_of(name)
        at_us, seed = caller.invoke.at_us, caller.invoke.seed
        if worker == self._worker:
            part.live += 1
            part.waiting.append((worker, Invoke(part.tid, path, request, WHOLE, at_us, seed, is_awaited)))
        else:
            share = part.shares.halve()
            self._to(worker).calls.append(Invoke(part.tid, path, request, share, at_us, seed, is_awaited))

    def _end(
        self, part: Part, caller: int, invoke: Invoke, step: Step, is_new: bool = False, is_failed: bool = False
    ) -> None:
        """An invocation is over: its result goes to its caller, and if it was the last one here, the shares of this
        worker to the root."""
        path = invoke.path
        failed = is_failed or is_new or step.failure is not None
        if step.failure is not None:
            part.failures.append((path, step.failure))
        part.is_new |= is_new
        if path == () and part.tid in self.roots:
            self.roots[part.tid].value = None if failed else step.value
        elif invoke.is_awaited:
            self._return(part, caller, Returned(part.tid, path, None if failed else step.value, failed))
        part.live -= 1
        if not part.live:
            self._give_back(part)

    def _return(self, part: Part, caller: int, returned: Returned) -> None:
        if caller == self._worker:
            part.waiting.append((caller, returned))
            self._waiting.add(part.tid)
        else:
            self._to(caller).returns.append(returned)

    def _give_back(self, part: Part) -> None:
        """Nothing of the transaction runs here any more."""
        root = self.roots.get(part.tid)
        if root is None:
            home = worker_of(part.tid, self._placement.workers)
            acknowledged = Acknowledged(part.tid, part.shares.take(), part.failures, part.is_new)
            self._to(home).shares.append(acknowledged)
        else:
            root.participants.add(self._worker)
            root.is_new |= part.is_new
            root.failures.update(part.failures)
            self._note_end(part, root)
        part.failures, part.is_new = [], False

    def _note_end(self, part: Part, root: Root) -> None:
        if not root.complete and self._is_over(part, root):
            root.complete = True
            self._completed.append(part.tid)

    def _is_over(self, part: Part, root: Root) -> bool:
        """Whether nothing of the transaction runs, here or elsewhere."""
        return not part.live and part.shares.is_whole

    def _to(self, worker: int) -> Outgoing:
        found = self._outgoing.get(worker)
        if found is None:
            found = self._outgoing[worker] = Outgoing()
        return found


def _path_of(waiting: tuple[int, Invoke | Returned]) -> Path:
    return waiting[1].path


def out_of_time(request: Request) -> UserError:
    """Returns the error of a transaction that was stopped."""
    return UserError(
        "a transaction ran out of time",
        f"a handler did not return in time, in {request.entity.kind}.{request.method} or what it was called with",
        "Divide long work into several calls; a handler must not wait for anything but calls.",
    )
