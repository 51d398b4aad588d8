"""A user's own strategy or policy does not end its worker: one that raises or returns nonsense is given up.

A strategy is given up for the function that it was asked about, and the default takes its place there; what concerns
no function (`bind`, `create_queue`, `next_message`) gives it up for all. Batches for which it had given no place go to
the lessor, and replies to its requests are ignored. A policy is given up as a whole: the urgencies of two policies
cannot be compared. Whatever is given up is reported once, with the traceback. Shipped ones are not guarded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec

from stretto.actors.address import Address
from stretto.actors.channel import Message, OutChannel
from stretto.actors.deadlines import NEVER_NS
from stretto.actors.seat import Seat
from stretto.actors.work import Work
from stretto.errors import InvariantError, UserError
from stretto.rendering import shown
from stretto.scheduling.policies import LLF, Policy
from stretto.scheduling.ready import ReadyQueue
from stretto.scheduling.spreading import RejectSend
from stretto.scheduling.strategy import Desk, Pending, Strategy
from stretto.worker.part import Part

T = TypeVar("T")
Of = tuple[str, str]
"""A job and a function of it."""
SHIPPED = "stretto.scheduling."


def is_shipped(one: Strategy | Policy | ReadyQueue) -> bool:
    """Whether it is one of stretto's own, and needs no guard."""
    return type(one).__module__.startswith(SHIPPED)


def name_of(one: Strategy | Policy) -> str:
    """What a user calls it."""
    return f"{type(one).__module__}:{type(one).__qualname__}"


class Misbehaviour(UserError):
    """A strategy or policy has returned or sent what it cannot mean."""


class GuardingDesk(Desk, Protocol):
    """The worker's desk, for the guard of a strategy."""

    def misbehaved(self, of: Of, what: str, error: BaseException) -> None:
        """Report that a strategy was given up for a function."""

    def misbehaved_for_all(self, guard: GuardedStrategy, what: str, error: BaseException) -> None:
        """Report that it was given up for all that have it."""

    def ask(self, guard: GuardedStrategy, to: str, about: Address, content: Any) -> int:
        """Send a request of this strategy."""

    def release(self, orphans: list[Pending]) -> None:
        """Let batches without a place go to the lessor."""

    def functions(self, guard: GuardedStrategy, function: str) -> list[Of]:
        """Those of this name that have the strategy."""

    def may_run(self, seat: Seat) -> bool:
        """Whether an instance may run, if it has work."""

    def has_work(self, seat: Seat) -> bool:
        """Whether an instance has work."""

    def offer_all(self, again: bool = False) -> None:
        """Put all instances up for running that can run; `again`, if the queue has forgotten them."""


class GuardedStrategy(Strategy):
    """A user's strategy, and the default for the functions that it was given up for."""

    def __init__(self, user: Strategy) -> None:
        self._user = user
        self._default = RejectSend()
        self._given_up: set[Of] = set()
        self._for_all = False
        self._disordered = False
        self._undecided: dict[Pending, None] = {}
        self._asked: dict[int, Of] = {}
        self._idle: set[Seat] = set()
        self._enqueues = False
        self.has_next_message = user.has_next_message
        self.has_pre_apply = user.has_pre_apply
        self.has_post_apply = user.has_post_apply
        # Lessors and lessees must agree on who may refuse, also after one of them has given the strategy up.
        self.force_migrate = bool(user.force_migrate)

    def bind(self, desk: Desk) -> None:
        raise NotImplementedError  # It needs to know more of the desk than strategies do.

    def guard(self, desk: GuardingDesk, copied: BaseException | None = None) -> None:
        """Bind the user's strategy to a desk, unless copying it has failed."""
        self.desk = self._guarding = desk
        self._default.bind(desk)
        try:
            if copied is not None:
                raise copied
            self._user.bind(_LentDesk(desk, self))
            self.near, self.waits, self.tracks = bool(self._user.near), bool(self._user.waits), bool(self._user.tracks)
        except BaseException as error:
            self.give_up_for_all("bind", error)

    # Giving up.

    def give_up_for_all(self, hook: str, error: BaseException) -> None:
        """From now on the default decides for all functions."""
        self._for_all = self._disordered = True
        self._guarding.misbehaved_for_all(self, self._said(hook), error)
        self._forget(lambda of: True)

    def forget(self, job: str) -> None:
        """A job is dropped."""
        self._given_up = {of for of in self._given_up if of[0] != job}
        self._idle.clear()
        self._forget(lambda of: of[0] == job)

    def _is_given_up(self, of: Of) -> bool:
        return self._for_all or of in self._given_up

    def _give_up(self, of: Of, hook: str, error: BaseException) -> None:
        if not self._is_given_up(of):
            self._given_up.add(of)
            self._guarding.misbehaved(of, self._said(hook), error)
            self._forget(lambda other: other == of)

    def _said(self, hook: str) -> str:
        return f"strategy {name_of(self._user)} was given up in {hook}"

    def _forget(self, concerned: Callable[[Of], bool]) -> None:
        self._asked = {number: about for number, about in self._asked.items() if not concerned(about)}
        orphans = [pending for pending in self._undecided if concerned(_of(pending.channel.receiver))]
        for pending in orphans:
            del self._undecided[pending]
        self._guarding.release(orphans)

    def _tried(self, of: Of, hook: str, call: Callable[[], T], otherwise: T) -> T:
        try:
            return call()
        except InvariantError:
            raise  # A defect of stretto, in what the strategy has called, is not its fault.
        except BaseException as error:
            self._give_up(of, hook, error)
            return otherwise

    # Order.

    def create_queue(self, policy: Policy) -> ReadyQueue:
        if self._disordered:
            return ReadyQueue(policy)
        try:
            queue = self._user.create_queue(policy)
            if not isinstance(queue, ReadyQueue):
                raise Misbehaviour("create_queue returned no ReadyQueue", shown(queue))
        except BaseException as error:
            self.give_up_for_all("create_queue", error)
            return ReadyQueue(policy)
        return queue if is_shipped(queue) else GuardedQueue(queue, policy, self._give_up_queue)

    def _give_up_queue(self, method: str, error: BaseException) -> None:
        self.give_up_for_all(f"{method} of its queue", error)
        self._guarding.offer_all(again=True)

    def next_message(self, queue: ReadyQueue, now_ns: int) -> Seat | None:
        if self._disordered:
            return queue.next_seat(now_ns)
        try:
            seat = self._user.next_message(queue.user if isinstance(queue, GuardedQueue) else queue, now_ns)
            if seat is not None:
                self._check_next(seat)
        except BaseException as error:
            self.give_up_for_all("next_message", error)
            self._guarding.offer_all()  # It may have taken some out of the queue.
            return queue.next_seat(now_ns)
        return seat

    def _check_next(self, seat: Seat) -> None:
        """A queue may give one that has nothing to do any more, but not twice."""
        if not isinstance(seat, Seat) or not self._guarding.may_run(seat):
            raise Misbehaviour("next_message returned what cannot run now", shown(seat))
        if self._guarding.has_work(seat):
            self._idle.clear()
        elif seat in self._idle:
            raise Misbehaviour("next_message returned an instance without work", f"{seat.address}")
        else:
            self._idle.add(seat)

    def pre_apply(self, seat: Seat, work: Work) -> None:
        of = _of(seat.address)
        if not self._is_given_up(of):
            self._tried(of, "pre_apply", lambda: self._user.pre_apply(seat, work), None)

    def post_apply(self, seat: Seat, work: Work, cost_ns: int) -> None:
        of = _of(seat.address)
        if not self._is_given_up(of):
            self._tried(of, "post_apply", lambda: self._user.post_apply(seat, work, cost_ns), None)

    # Place.

    def enqueue(self, lessor: Seat, message: Message, candidates: list[str]) -> str | None:
        of = _of(lessor.address)
        if self._is_given_up(of):
            return self._default.enqueue(lessor, message, candidates)
        return self._tried(of, "enqueue", lambda: self._enqueued(lessor, message, candidates), None)

    def _enqueued(self, lessor: Seat, message: Message, candidates: list[str]) -> str | None:
        before, self._enqueues = self._enqueues, True
        try:
            chosen = self._user.enqueue(lessor, message, list(candidates))
        finally:
            self._enqueues = before
        if chosen is not None and chosen not in candidates:
            raise Misbehaviour("enqueue returned a worker that is no candidate", shown(chosen))
        return chosen

    def accept(self, lessee: Seat, message: Message) -> bool:
        of = _of(lessee.address)
        if self._is_given_up(of):
            return True
        return self._tried(of, "accept", lambda: bool(self._user.accept(lessee, message)), True)

    def wants_direct(self, channel: OutChannel) -> bool:
        of = _of(channel.receiver)
        if self._is_given_up(of):
            return False
        return self._tried(of, "wants_direct", lambda: bool(self._user.wants_direct(channel)), False)

    def prepare_send(self, channel: OutChannel, direct: list[OutChannel], pending: Pending) -> OutChannel | None:
        of = _of(channel.receiver)
        if self._is_given_up(of):
            return channel
        lessor: OutChannel | None = channel
        return self._tried(of, "prepare_send", lambda: self._prepared(channel, direct, pending), lessor)

    def _prepared(self, channel: OutChannel, direct: list[OutChannel], pending: Pending) -> OutChannel | None:
        chosen = self._user.prepare_send(channel, list(direct), pending)
        if chosen is None:
            self._undecided[pending] = None
        else:
            _check_place(chosen, channel)
        return chosen

    def why(self, function: str) -> str | None:
        if self._for_all or any(of[1] == function for of in self._given_up):
            return None
        try:
            said = self._user.why(function)
            if said is not None and not isinstance(said, str):
                raise Misbehaviour("why returned no text", shown(said))
        except BaseException as error:
            for of in self._guarding.functions(self, function):
                self._give_up(of, "why", error)
            return None
        return said

    def on_request(self, sender: str, address: Address, content: Any) -> Any:
        of = _of(address)
        if self._is_given_up(of):
            return None
        return self._tried(of, "on_request", lambda: _plain(self._user.on_request(sender, address, content)), None)

    def on_reply(self, sender: str, number: int, content: Any) -> None:
        of = self._asked.pop(number, None)
        if of is not None:
            self._tried(of, "on_reply", lambda: self._user.on_reply(sender, number, content), None)

    # What it does at its desk.

    def forward(self, message: Message, to: str) -> bool:
        """Not while it is asked about a message: whoever asks goes through the mailbox."""
        if self._enqueues or self._is_given_up(_of(message.channel.seat.address)):
            return False
        return self._guarding.forward(message, to)

    def request(self, to: str, about: Address, content: Any) -> int:
        number = self._guarding.ask(self, to, about, _plain(content))
        self._asked[number] = _of(about)
        return number

    def send(self, pending: Pending, channel: OutChannel) -> None:
        if pending.channel.seat.dropped or self._is_given_up(_of(pending.channel.receiver)):
            return
        if pending not in self._undecided:
            raise Misbehaviour("a batch was sent that was not undecided", f"to {pending.channel.receiver}")
        _check_place(channel, pending.channel)
        del self._undecided[pending]
        self._guarding.send(pending, channel)


def _of(address: Address) -> Of:
    return address.job, address.function


def _plain(content: Any) -> Any:
    """What a request or a reply says, if it can be sent."""
    msgspec.msgpack.encode(content)
    return content


def _check_place(chosen: OutChannel, channel: OutChannel) -> None:
    if chosen is not channel and chosen not in (channel.direct or ()):
        raise Misbehaviour("a batch was given a place that was not offered", shown(chosen))


class _LentDesk:
    """The desk of a guarded strategy."""

    def __init__(self, desk: Desk, guard: GuardedStrategy) -> None:
        self._desk = desk
        self.forward = guard.forward
        self.request = guard.request
        self.send = guard.send
        self.waiting = desk.waiting
        self.admits = desk.admits
        self.ahead_ns = desk.ahead_ns
        self.late = desk.late
        self.homes = desk.homes
        self.busy = desk.busy

    @property
    def member(self) -> str:
        return self._desk.member

    @property
    def now_ns(self) -> int:
        return self._desk.now_ns

    def candidates(self, lessor: Seat) -> list[str]:
        return list(self._desk.candidates(lessor))


class GuardedQueue(ReadyQueue):
    """A user's queue, until it is given up; then it is the usual one."""

    def __init__(self, user: ReadyQueue, policy: Policy, give_up: Callable[[str, BaseException], None]) -> None:
        super().__init__(policy)
        self.user = user
        self._give_up = give_up

    @property
    def idle(self) -> bool:
        return self._tried("idle", lambda: bool(self.user.idle))

    def enqueue(self, seat: Seat) -> None:
        self._tried("enqueue", lambda: self.user.enqueue(seat))

    def waiting(self) -> int:
        return self._tried("waiting", lambda: self.user.waiting())

    def hurry(self, seat: Seat) -> None:
        self._tried("hurry", lambda: self.user.hurry(seat))

    def rerank(self) -> None:
        self._tried("rerank", lambda: self.user.rerank())

    def next_seat(self, now_ns: int) -> Seat | None:
        return self._tried("next_seat", lambda: self.user.next_seat(now_ns))

    def forget(self, job: str) -> None:
        self._tried("forget", lambda: self.user.forget(job))

    def _tried(self, method: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except BaseException as error:
            if is_shipped(self.user):
                raise
            self.user = ReadyQueue(self.policy)
            self._give_up(method, error)
            return call()


class GuardedPolicy(Policy):
    """A user's policy, until it is given up; then it is LLF."""

    def __init__(self, user: Policy, misbehaved: Callable[[Seat, str, BaseException], None]) -> None:
        self._policy = user
        self._misbehaved = misbehaved
        self.starves = user.starves
        self.by_deadline = user.by_deadline
        self.by_time = user.by_time
        self.has_spent = user.has_spent

    def urgency(self, seat: Seat, what: Any) -> float:
        try:
            return _number(self._policy.urgency(seat, what))
        except BaseException as error:
            self._give_up(seat, "urgency", error)
            return self._policy.urgency(seat, what)

    def spent(self, seat: Seat, cost_ns: int, now_ns: int) -> None:
        try:
            self._policy.spent(seat, cost_ns, now_ns)
        except BaseException as error:
            self._give_up(seat, "spent", error)

    def _give_up(self, seat: Seat, hook: str, error: BaseException) -> None:
        given_up, self._policy = self._policy, LLF()
        self.by_time = LLF.by_time
        self._misbehaved(seat, f"policy {name_of(given_up)} was given up in {hook}", error)


def _number(urgency: Any) -> float:
    number = urgency if isinstance(urgency, int | float) else float(urgency)
    if number != number:
        raise Misbehaviour("urgency returned what is no number", shown(urgency))
    return number


class Aftermath(Part):
    """What is done once the event at hand is over, in which something was given up: orphaned batches go to the lessor,
    and a queue that was ordered by another policy is ordered again."""

    def __init__(self, send: Callable[[Pending, OutChannel], None], rerank: Callable[[], None]) -> None:
        self._send = send
        self._rerank = rerank
        self._orphans: list[Pending] = []
        self._reranks = False

    def release(self, orphans: list[Pending]) -> None:
        if orphans:
            self._orphans += orphans
            self.due_ns = 0

    def rerank(self) -> None:
        self._reranks = True
        self.due_ns = 0

    def wake(self) -> None:
        self.due_ns = NEVER_NS
        orphans, self._orphans = self._orphans, []
        for pending in orphans:
            self._send(pending, pending.channel)
        if self._reranks:
            self._reranks = False
            self._rerank()
