"""Strategies and policies of a user's own that raise, or return nonsense, at any call of any hook.

Barriers hold, answers stay, the job finishes, and whoever was given up is reported once per worker and function.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from stretto.actors.address import Address
from stretto.actors.channel import Message, OutChannel
from stretto.actors.seat import Seat
from stretto.actors.work import Work
from stretto.scheduling.policies import FairShare, Policy
from stretto.scheduling.ready import ReadyQueue
from stretto.scheduling.spreading import Arbitrary
from stretto.scheduling.strategy import Desk, Pending, Strategy
from stretto.simulator.checking.barriers import Trial, try_seed

SEEDS = 8
CALLS = (1, 2, 4)
PLACE = ("enqueue", "accept", "wants_direct", "prepare_send", "on_request", "on_reply", "why", "bind")
ORDER = ("create_queue", "next_message", "pre_apply", "post_apply", "bind")


class Spoilt(Arbitrary):
    """Does whatever a strategy can do, until the n-th call of a hook; from then on that raises, after what it does."""

    def __init__(self, seed: int, hook: str, at: int, direct: float = 0.7) -> None:
        super().__init__(seed, 0.7, direct)
        self._hook = hook
        self._at = at
        self._calls = 0
        self._asks = 0.5
        if hook == "accept":
            self.force_migrate = False

    def spoil(self, hook: str, done: Any) -> Any:
        if hook == self._hook:
            self._calls += 1
            if self._calls >= self._at:
                return self.nonsense(done)
        return done

    def nonsense(self, done: Any) -> Any:
        raise ValueError(f"{self._hook} has had enough")

    def bind(self, desk: Desk) -> None:
        self.spoil("bind", super().bind(desk))

    def create_queue(self, policy: Policy) -> ReadyQueue:
        return self.spoil("create_queue", super().create_queue(policy))  # type: ignore[no-any-return]

    def next_message(self, queue: ReadyQueue, now_ns: int) -> Seat | None:
        return self.spoil("next_message", super().next_message(queue, now_ns))  # type: ignore[no-any-return]

    def pre_apply(self, seat: Seat, work: Work) -> None:
        self.spoil("pre_apply", None)

    def post_apply(self, seat: Seat, work: Work, cost_ns: int) -> None:
        self.spoil("post_apply", super().post_apply(seat, work, cost_ns))

    def enqueue(self, lessor: Seat, message: Message, candidates: list[str]) -> str | None:
        return self.spoil("enqueue", super().enqueue(lessor, message, candidates))  # type: ignore[no-any-return]

    def accept(self, lessee: Seat, message: Message) -> bool:
        return self.spoil("accept", super().accept(lessee, message))  # type: ignore[no-any-return]

    def wants_direct(self, channel: OutChannel) -> bool:
        return self.spoil("wants_direct", super().wants_direct(channel))  # type: ignore[no-any-return]

    def prepare_send(self, channel: OutChannel, direct: list[OutChannel], pending: Pending) -> OutChannel | None:
        return self.spoil("prepare_send", super().prepare_send(channel, direct, pending))  # type: ignore[no-any-return]

    def on_request(self, sender: str, address: Address, content: Any) -> Any:
        return self.spoil("on_request", super().on_request(sender, address, content))

    def on_reply(self, sender: str, number: int, content: Any) -> None:
        if self._hook != "on_reply" or self._calls + 1 < self._at or self._at % 2:
            super().on_reply(sender, number, content)  # Else the batch is without a place when it raises.
        self.spoil("on_reply", None)

    def why(self, function: str) -> str | None:
        return self.spoil("why", super().why(function))  # type: ignore[no-any-return]


class Nonsensical(Spoilt):
    """Returns what cannot be meant."""

    def nonsense(self, done: Any) -> Any:
        return self


def strategies(kind: type[Spoilt], hook: str, at: int) -> Callable[[], Strategy]:
    numbers = itertools.count()
    return lambda: kind(next(numbers), hook, at)


def tried(**what: Any) -> list[Trial]:
    """Some seeds, none of which shows anything wrong."""
    trials = [try_seed(seed, 8, 8, **what) for seed in range(SEEDS)]
    for trial in trials:
        assert not trial.violations, f"seed {trial.seed}: {trial.violations[0]}\n{trial.log}"
        reports = Counter((told.member, told.said.function) for told in trial.given_up)
        assert all(count == 1 for count in reports.values()), "each worker reports a function once"
    assert sum(trial.barriers for trial in trials) > SEEDS
    return trials


def given_up(trials: list[Trial]) -> list[str]:
    return [told.said.what for trial in trials for told in trial.given_up]


@pytest.mark.parametrize("at", CALLS)
@pytest.mark.parametrize("hook", [*PLACE, "pre_apply", "post_apply"])
def test_a_strategy_of_functions_that_raises_is_given_up_and_nothing_is_lost(hook: str, at: int) -> None:
    trials = tried(strategy=strategies(Spoilt, hook, at))
    if at == 1 or hook != "bind":
        assert f"strategy {__name__}:Spoilt was given up in {hook}" in given_up(trials)
        assert all("has had enough" in told.said.traceback for trial in trials for told in trial.given_up)


@pytest.mark.parametrize("at", CALLS)
@pytest.mark.parametrize("hook", ORDER)
def test_a_strategy_of_workers_that_raises_is_given_up_and_nothing_is_lost(hook: str, at: int) -> None:
    trials = tried(own=strategies(Spoilt, hook, at))
    if at == 1 or hook not in ("bind", "create_queue"):
        assert f"strategy {__name__}:Spoilt was given up in {hook}" in given_up(trials)


@pytest.mark.parametrize("hook", ["enqueue", "prepare_send", "on_request", "why"])
def test_a_strategy_of_functions_that_returns_nonsense_is_given_up(hook: str) -> None:
    trials = tried(strategy=strategies(Nonsensical, hook, 3))
    assert f"strategy {__name__}:Nonsensical was given up in {hook}" in given_up(trials)


@pytest.mark.parametrize("hook", ["create_queue", "next_message"])
def test_a_strategy_of_workers_that_returns_nonsense_is_given_up(hook: str) -> None:
    trials = tried(own=strategies(Nonsensical, hook, 1))
    assert f"strategy {__name__}:Nonsensical was given up in {hook}" in given_up(trials)


class Stuck(Strategy):
    """Always picks the instance that it picked first, whether it can run or not."""

    first: Seat | None = None

    def next_message(self, queue: ReadyQueue, now_ns: int) -> Seat | None:
        self.first = self.first or queue.next_seat(now_ns)
        return self.first


def test_an_instance_that_is_picked_without_work_does_not_keep_the_worker() -> None:
    trials = tried(own=Stuck)
    assert f"strategy {__name__}:Stuck was given up in next_message" in given_up(trials)


class ForgetfulQueue(ReadyQueue):
    """A user's queue that raises at some call of one of its methods."""

    def __init__(self, policy: Policy, method: str) -> None:
        super().__init__(policy)
        self._method, self._left = method, 20

    def __getattribute__(self, name: str) -> Any:
        if name == object.__getattribute__(self, "__dict__").get("_method"):
            self._left -= 1
            if self._left < 0:
                raise ValueError("forgotten")
        return super().__getattribute__(name)


class Queueing(Strategy):
    """Makes such a queue."""

    def __init__(self, method: str) -> None:
        self._method = method

    def create_queue(self, policy: Policy) -> ReadyQueue:
        return ForgetfulQueue(policy, self._method)


@pytest.mark.parametrize("method", ["enqueue", "hurry", "next_seat", "idle"])
def test_a_queue_of_a_user_that_raises_is_given_up_and_nothing_is_lost(method: str) -> None:
    trials = tried(own=lambda: Queueing(method))
    assert f"strategy {__name__}:Queueing was given up in {method} of its queue" in given_up(trials)


class Twice(Arbitrary):
    """Sends a batch for which it has given no place twice."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, 0.3, 1.0)
        self._asks = 1.0

    def on_reply(self, sender: str, number: int, content: Any) -> None:
        pending = self._asked[number]
        super().on_reply(sender, number, content)
        self.desk.send(pending, pending.channel)


def test_a_batch_that_is_sent_twice_goes_once() -> None:
    numbers = itertools.count()
    trials = tried(strategy=lambda: Twice(next(numbers)))
    assert f"strategy {__name__}:Twice was given up in on_reply" in given_up(trials)


class Moody(FairShare):
    """A policy that raises, or has no number, after some calls."""

    def __init__(self, hook: str, at: int, instead: Any = None) -> None:
        super().__init__()
        self._hook, self._left, self._instead = hook, at, instead

    def urgency(self, seat: Seat, what: Any) -> float:
        return self._asked("urgency", super().urgency(seat, what))

    def spent(self, seat: Seat, cost_ns: int, now_ns: int) -> None:
        super().spent(seat, cost_ns, now_ns)
        self._asked("spent", 0.0)

    def _asked(self, hook: str, answer: float) -> float:
        self._left -= hook == self._hook
        if self._left >= 0:
            return answer
        if self._instead is None:
            raise ValueError("no more")
        return self._instead  # type: ignore[no-any-return]


@pytest.mark.parametrize("at", [0, 1, 10])
@pytest.mark.parametrize(
    ("hook", "instead"), [("urgency", None), ("spent", None), ("urgency", "soon"), ("urgency", float("nan"))]
)
def test_a_policy_that_raises_is_given_up_and_nothing_is_lost(hook: str, instead: Any, at: int) -> None:
    trials = tried(policy=lambda: Moody(hook, at, instead))
    assert f"policy {__name__}:Moody was given up in {hook}" in given_up(trials)
