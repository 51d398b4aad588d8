"""Runs the handlers of transactions on one worker (styx.txt 6), in the dry run and in the fallback.

A transaction runs in **waves**: what its handlers call and return in a wave is there in the next one, on this worker or
another. Within a wave, a worker runs what it has for a transaction in the order of the paths in its tree of calls. So
what a transaction does follows from the state that it began with, and neither from the delays of messages nor from
where its entities are: that makes a replay give the same replies. As long as a transaction is on one worker only, which
its acknowledgement shares tell, its waves need no message and follow each other at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
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
from stretto.transactions.invocation import Invocation, Step, failure_of
from stretto.transactions.placement import Placement
from stretto.transactions.sequencing import worker_of
from stretto.transactions.shares import NOTHING, WHOLE, divided, written


@dataclass
class Root:
    """What the worker of a transaction knows of it: the shares that came back, from whom, and how it ended."""

    collected: Fraction = NOTHING
    participants: set[int] = field(default_factory=set)
    value: bytes | None = None
    failures: dict[Path, Failure] = field(default_factory=dict)
    is_new: bool = False

    @property
    def complete(self) -> bool:
        return self.collected == WHOLE

    @property
    def failure(self) -> Failure | None:
        """Of several failures, the first in the tree of calls: the same whatever came first."""
        return self.failures[min(self.failures)] if self.failures else None


@dataclass
class Part:
    """What a transaction does on this worker."""

    held: Fraction = NOTHING
    """Shares of what runs here or waits for the next wave here."""
    waiting: list[tuple[int, Invoke | Returned]] = field(default_factory=list)
    """For the next wave, with the sender."""
    invocations: dict[Path, Invocation] = field(default_factory=dict)
    callers: dict[Path, int] = field(default_factory=dict)
    instances: dict[EntityName, Any] = field(default_factory=dict)
    before: dict[EntityName, bytes | None] = field(default_factory=dict)
    after: dict[EntityName, bytes | None] = field(default_factory=dict)

    def writes(self) -> dict[EntityName, bytes]:
        found = {name: state for name, state in self.after.items() if state != self.before[name]}
        return {name: state for name, state in found.items() if state is not None}

    def sets(self) -> Sets:
        return Sets(frozenset(self.before), frozenset(self.writes()))


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

    `known` are the sets that a transaction must keep to, in the fallback; `state` the entities' committed fields."""

    def __init__(
        self,
        worker: int,
        placement: Placement,
        catalog: Catalog,
        state: Mapping[EntityName, bytes],
        known: Callable[[int], Sets] | None = None,
    ) -> None:
        self._worker = worker
        self._placement = placement
        self._catalog = catalog
        self._state = state
        self._known = known
        self.roots: dict[int, Root] = {}
        self.parts: dict[int, Part] = {}
        self._outgoing: dict[int, Outgoing] = {}
        self.stopped: frozenset[str] = frozenset()
        """The seeds of transactions that are aborted when they come here, since they ran out of time."""
        self._ran: set[int] = set()
        """Transactions that have run a wave in this round."""

    # What comes in.

    def begin(self, tid: int, request: Request, at_us: int, seed: str) -> None:
        """A transaction of this worker begins."""
        self.roots[tid] = Root()
        self.deliver(self._worker, Invoke(tid, (), request, written(WHOLE), at_us, seed))

    def deliver(self, sender: int, item: Invoke | Returned | Acknowledged) -> None:
        """Something has come from a worker, for the next wave; a share counts at once."""
        if isinstance(item, Acknowledged):
            self._acknowledge(sender, item)
            return
        part = self.parts.setdefault(item.tid, Part())
        if isinstance(item, Invoke):
            part.held += Fraction(item.share)
        part.waiting.append((sender, item))

    def _acknowledge(self, sender: int, item: Acknowledged) -> None:
        root = self.roots[item.tid]
        root.collected += Fraction(item.share)
        root.participants.add(sender)
        root.is_new |= item.is_new
        if item.failure is not None:
            root.failures[item.path] = item.failure
        if root.collected > WHOLE:
            raise InvariantError(f"transaction {item.tid} has more shares than there are", str(root.collected))

    # Running.

    def run(self) -> None:
        """Run the next wave of every transaction, and all waves of those that are on this worker only. Called again
        before `take_outgoing`, it runs only what has begun since: the others are not further on other workers."""
        for tid in sorted(tid for tid, part in self.parts.items() if part.waiting):
            if self._may_run(tid):
                self._ran.add(tid)
                self._wave(tid)
            while self.parts[tid].waiting and self._is_alone(tid):
                self._wave(tid)

    def _may_run(self, tid: int) -> bool:
        return tid not in self._ran

    @property
    def has_work(self) -> bool:
        return any(part.waiting for part in self.parts.values())

    def take_outgoing(self) -> dict[int, Outgoing]:
        """Returns what goes to other workers. The next round begins."""
        self._ran.clear()
        outgoing, self._outgoing = self._outgoing, {}
        return outgoing

    def _is_alone(self, tid: int) -> bool:
        root = self.roots.get(tid)
        return root is not None and root.collected + self.parts[tid].held == WHOLE

    def _wave(self, tid: int) -> None:
        part = self.parts[tid]
        items, part.waiting = part.waiting, []
        for sender, item in sorted(items, key=lambda each: each[1].path):
            if isinstance(item, Invoke):
                self._start(part, sender, item)
            else:
                self._resume(part, item)

    def _start(self, part: Part, caller: int, invoke: Invoke) -> None:
        name = invoke.request.entity
        part.callers[invoke.path] = caller
        share = Fraction(invoke.share)
        if self._known is not None and name not in self._known(invoke.tid).reads:
            self._end(part, invoke.tid, invoke.path, share, Step(ended=True), is_new=True)
            return
        try:
            if invoke.seed in self.stopped:
                raise out_of_time(invoke.request)
            kind = self._catalog.kind(name.kind)
            method = kind.method(invoke.request.method)
        except UserError as error:
            self._end(part, invoke.tid, invoke.path, share, Step(ended=True, failure=failure_of(error, name)))
            return
        if name not in part.instances:
            part.before[name] = part.after[name] = self._state.get(name)
            part.instances[name] = kind.instance(name.key, part.before[name])
        invocation = Invocation(invoke, share, part.instances[name], kind, method)
        if method.only_reads:
            invocation.must_stay = kind.fields(part.instances[name])
        part.invocations[invoke.path] = invocation
        self._follow(part, invoke.tid, invocation, invocation.start())

    def _resume(self, part: Part, returned: Returned) -> None:
        caller = part.invocations.get(returned.path[:-1])
        if caller is None:
            return  # It has not waited for the result.
        if returned.failed:
            caller.close()
            self._follow(part, returned.tid, caller, Step(ended=True), is_failed=True)
            return
        assert returned.value is not None
        made = caller.made(returned.path[-1])
        method = self._catalog.kind(made.kind).method(made.method)
        step = caller.resume(made.index, method.decode_result(returned.value))
        if step is not None:
            self._follow(part, returned.tid, caller, step)

    def _follow(self, part: Part, tid: int, invocation: Invocation, step: Step, is_failed: bool = False) -> None:
        """Send what a step has called, and what it has returned if it was the last one."""
        is_new = False
        if step.ended and step.failure is None and not is_failed:
            step, is_new = self._kept(part, tid, invocation, step)
        shares, rest = divided(invocation.share, len(step.calls), not step.ended)
        for made, share in zip(step.calls, shares, strict=True):
            self._call(part, tid, invocation, made, share)
        if step.ended:
            del part.invocations[invocation.path]
            self._end(part, tid, invocation.path, rest, step, is_new, is_failed)
        else:
            invocation.share = rest

    def _kept(self, part: Part, tid: int, invocation: Invocation, step: Step) -> tuple[Step, bool]:
        """Note the fields that a handler leaves behind. Returns the step, which fails if they are wrong, and whether
        the transaction has written what it was not known to write."""
        name, kind = invocation.entity, invocation.kind
        try:
            after = kind.encode(invocation.instance, part.before[name])
            if invocation.method.only_reads and kind.fields(invocation.instance) != invocation.must_stay:
                raise UserError(f"{name.kind}.{invocation.method.name} only reads", "it has changed a field")
        except StrettoError as error:
            return Step(ended=True, failure=failure_of(error, name)), False
        part.after[name] = after
        if self._known is not None and after != part.before[name] and name not in self._known(tid).writes:
            return Step(ended=True), True
        return step, False

    def _call(self, part: Part, tid: int, caller: Invocation, made: MadeCall, share: Fraction) -> None:
        name = EntityName(made.kind, made.key)
        path = (*caller.path, made.index)
        request = Request(name, made.method, made.arguments)
        invoke = Invoke(tid, path, request, written(share), caller.at_us, caller.seed)
        worker = self._placement.worker_of(name)
        part.held -= share
        if worker == self._worker:
            self.deliver(worker, invoke)
        else:
            self._to(worker).calls.append(invoke)

    def _end(
        self,
        part: Part,
        tid: int,
        path: Path,
        share: Fraction,
        step: Step,
        is_new: bool = False,
        is_failed: bool = False,
    ) -> None:
        """An invocation is over: its share goes to the root, its result to its caller."""
        part.held -= share
        acknowledged = Acknowledged(tid, path, written(share), step.failure, is_new)
        home = worker_of(tid, self._placement.workers)
        if home == self._worker:
            self._acknowledge(home, acknowledged)
        else:
            self._to(home).shares.append(acknowledged)
        failed = is_failed or is_new or step.failure is not None
        if path == ():
            self.roots[tid].value = None if failed else step.value
            return
        returned = Returned(tid, path, None if failed else step.value, failed)
        caller = part.callers[path]
        if caller == self._worker:
            self.deliver(caller, returned)
        else:
            self._to(caller).returns.append(returned)

    def _to(self, worker: int) -> Outgoing:
        return self._outgoing.setdefault(worker, Outgoing())


def out_of_time(request: Request) -> UserError:
    """Returns the error of a transaction that was stopped."""
    return UserError(
        "a transaction ran out of time",
        f"a handler did not return in time, in {request.entity.kind}.{request.method} or what it was called with",
        "Divide long work into several calls; a handler must not wait for anything but calls.",
    )
