"""The strategies by themselves, each at a desk that says what it is told to say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stretto.actors.address import Address
from stretto.errors import UserError
from stretto.scheduling.binding import LaxityBasedDirect, QueueBasedDirect
from stretto.scheduling.choosing import (
    ASKED_TASK_NS,
    BINDING,
    LARGE_TASK_NS,
    OFFLOADING,
    REMEMBERED,
    Auto,
    Popularity,
    Profile,
    choose,
)
from stretto.scheduling.offloading import (
    FORGOTTEN_AFTER_NS,
    AcceptAndCheck,
    Anticipate,
    CheckFirst,
    Offloading,
    Parallel,
    Pipelined,
    RejectLate,
)
from stretto.scheduling.strategies import STRATEGIES, strategy_named
from stretto.scheduling.strategy import Strategy
from stretto.scheduling.tokens import TokenRate

HOME = Address("job", "f", 0)


class Desk:
    """A worker that admits up to a deadline, and remembers what it was asked to do."""

    member = "me"

    def __init__(self, free_ns: float = 0.0, late: int = 0, candidates: str = "abc") -> None:
        self.now_ns = 0
        self.free_ns = free_ns
        self.queue = 0
        self.loads: dict[str, int] = {}
        self.requests: list[tuple[str, Any]] = []
        self.forwarded: list[tuple[Any, str]] = []
        self.sent: list[tuple[Any, Any]] = []
        self._candidates = list(candidates)
        self.lateness = [late_message(number) for number in range(late)]

    def waiting(self) -> int:
        return self.queue

    def admits(self, deadline_ns: float, cost_ns: float) -> bool:
        return deadline_ns - cost_ns >= self.free_ns

    def late(self, seat: Any) -> list[Any]:
        return self.lateness

    def candidates(self, lessor: Any) -> list[str]:
        return self._candidates

    def ahead_ns(self, deadline_ns: float) -> float:
        return self.free_ns

    def homes(self, member: str) -> int:
        return ord(member)

    def busy(self, lessor: Any, member: str) -> int:
        return self.loads.get(member, 0)

    def forward(self, message: Any, to: str) -> bool:
        self.forwarded.append((message.number, to))
        return True

    def request(self, to: str, about: Address, content: Any) -> int:
        self.requests.append((to, content))
        return len(self.requests)

    def send(self, pending: Any, channel: Any) -> None:
        self.sent.append((pending, channel))


def late_message(number: int) -> Any:
    lessor = SimpleNamespace(address=HOME, cost_ns=10.0)
    return SimpleNamespace(number=number, deadline_ns=100 + number, channel=SimpleNamespace(seat=lessor))


def at(desk: Desk, strategy: Any) -> Any:
    strategy.bind(desk)
    return strategy


def lessor(cost_ns: float = 10.0) -> Any:
    return SimpleNamespace(cost_ns=cost_ns, address=HOME, spec=SimpleNamespace(parallelism=1))


def arriving(deadline_ns: int) -> Any:
    return SimpleNamespace(deadline_ns=deadline_ns)


def test_what_can_start_in_time_is_kept_and_the_rest_never_enters() -> None:
    strategy = at(Desk(free_ns=50), RejectLate())
    assert strategy.enqueue(lessor(), arriving(60), ["a", "b"]) is None
    assert strategy.enqueue(lessor(), arriving(59), ["a", "b"]) in ("a", "b")
    assert strategy.enqueue(lessor(), arriving(59), []) is None


def test_the_lessee_is_drawn_by_lot_or_is_the_one_with_least_to_do() -> None:
    desk = Desk(free_ns=50)
    desk.loads = {"a": 3, "b": 1, "c": 2}
    least = at(desk, RejectLate(random_lessee=False))
    assert {least.enqueue(lessor(), arriving(0), ["a", "b", "c"]) for _ in range(20)} == {"b"}
    drawn = at(desk, RejectLate(random_lessee=True))
    assert {drawn.enqueue(lessor(), arriving(0), ["a", "b", "c"]) for _ in range(40)} == {"a", "b", "c"}


@pytest.mark.parametrize("make", [RejectLate, AcceptAndCheck])
def test_a_lessee_refuses_what_it_cannot_start_in_time(make: type[Offloading]) -> None:
    strategy = at(Desk(free_ns=50), make(force_migrate=False))  # type: ignore[call-arg]
    assert not strategy.force_migrate
    assert strategy.accept(lessor(), arriving(60))
    assert not strategy.accept(lessor(), arriving(40))


def test_one_that_anticipates_forwards_sooner_to_who_owes_least_and_is_home_to_fewest() -> None:
    desk = Desk(free_ns=50)
    desk.loads = {"a": 9}
    strategy = at(desk, Anticipate(patience=0.1))
    waiting = lessor()
    waiting.outs = []
    assert strategy.enqueue(waiting, arriving(500), ["a", "b", "c"]) is None, "a tenth of its time"
    assert strategy.enqueue(waiting, arriving(499), ["a", "b", "c"]) == "b"
    assert strategy.enqueue(waiting, arriving(499), []) is None
    desk.loads = dict.fromkeys("abc", 5)
    assert strategy.enqueue(waiting, arriving(499), ["a", "b", "c"]) is None, "they have as much to do"
    waiting.outs = [SimpleNamespace(latency_ns=100)]
    assert strategy.enqueue(waiting, arriving(10_000), ["a", "b"]) is None
    desk.loads = {}
    assert strategy.enqueue(waiting, arriving(10_000), ["a", "b"]) == "a", "a window that ends late does not count"


def test_after_each_run_what_would_be_late_goes_elsewhere() -> None:
    desk = Desk(late=3)
    at(desk, AcceptAndCheck()).post_apply(lessor(), None, 5)
    assert [number for number, _ in desk.forwarded] == [0, 1, 2]
    assert {to for _, to in desk.forwarded} <= set("abc")
    nobody = Desk(late=3, candidates="")
    at(nobody, AcceptAndCheck()).post_apply(lessor(), None, 5)
    assert nobody.forwarded == []


def test_check_first_sends_all_to_the_first_that_can_and_asks_again_only_after_that() -> None:
    desk = Desk(late=3)
    strategy = at(desk, CheckFirst(search_range=2))
    strategy.post_apply(lessor(), None, 5)
    (first, wish), (second, _) = desk.requests
    assert first != second
    assert wish == [100, 30.0], "the deadline of the most urgent, the cost of all"
    strategy.post_apply(lessor(), None, 5)
    assert len(desk.requests) == 2, "the search is under way"
    strategy.on_reply(first, 1, False)
    assert desk.forwarded == []
    strategy.on_reply(second, 2, True)
    assert desk.forwarded == [(0, second), (1, second), (2, second)]
    strategy.post_apply(lessor(), None, 5)
    assert len(desk.requests) == 4


def test_check_first_waits_for_as_many_replies_as_are_required() -> None:
    desk = Desk(late=1)
    strategy = at(desk, CheckFirst(search_range=3, reply_required=2))
    strategy.post_apply(lessor(), None, 5)
    strategy.on_reply("a", 1, True)
    assert desk.forwarded == []
    strategy.on_reply("b", 2, True)
    strategy.on_reply("c", 3, True)
    assert desk.forwarded == [(0, "b")], "and only one gets it"


def test_a_search_without_replies_is_given_up() -> None:
    desk = Desk(late=1)
    strategy = at(desk, CheckFirst(search_range=1))
    strategy.post_apply(lessor(), None, 5)
    desk.now_ns = FORGOTTEN_AFTER_NS + 1
    strategy.post_apply(lessor(), None, 5)
    assert len(desk.requests) == 2


def test_pipelined_asks_again_with_the_first_reply() -> None:
    desk = Desk(late=1)
    strategy = at(desk, Pipelined(search_range=3, reply_required=1))
    strategy.post_apply(lessor(), None, 5)
    strategy.on_reply(desk.requests[0][0], 1, False)
    strategy.post_apply(lessor(), None, 5)
    assert len(desk.requests) == 6


def test_parallel_deals_the_messages_to_those_it_asks() -> None:
    desk = Desk(late=5)
    strategy = at(desk, Parallel(search_range=2))
    strategy.post_apply(lessor(), None, 5)
    assert [wish for _, wish in desk.requests] == [[100, 30.0], [101, 20.0]]
    strategy.on_reply("a", 1, True)
    strategy.on_reply("b", 2, False)
    assert desk.forwarded == [(0, "a"), (2, "a"), (4, "a")], "the others stay"


def place(name: str, credits: int = 32) -> Any:
    return SimpleNamespace(peer=name, credits=credits, receiver=HOME, cost_ns=10.0, stateless=True, seat=lessor())


def test_of_two_places_the_one_with_the_shorter_queue_gets_the_batch() -> None:
    desk = Desk()
    strategy = at(desk, QueueBasedDirect())
    home, lessees = place("h"), [place("a"), place("b")]
    pending = SimpleNamespace(channel=home, deadline_ns=100)
    assert strategy.prepare_send(home, lessees, pending) is None
    (one, _), (other, _) = desk.requests
    assert one != other
    strategy.on_reply(one, 1, 7)
    assert desk.sent == [], "both are waited for"
    strategy.on_reply(other, 2, 3)
    ((_, chosen),) = desk.sent
    assert chosen.peer == other


def test_a_place_without_credits_is_passed_over_for_the_lessor() -> None:
    desk = Desk()
    strategy = at(desk, QueueBasedDirect())
    home, lessee = place("h"), place("a", credits=0)
    strategy.prepare_send(home, [lessee], SimpleNamespace(channel=home, deadline_ns=100))
    for number, (to, _) in enumerate(list(desk.requests), start=1):
        strategy.on_reply(to, number, 0 if to == "a" else 9)
    assert desk.sent[0][1] is home


def test_laxity_comes_before_the_queue() -> None:
    desk = Desk(free_ns=50)
    desk.queue = 4
    strategy = at(desk, LaxityBasedDirect())
    assert strategy.on_request("x", HOME, [60, 10.0]) == [False, 4]
    assert strategy.on_request("x", HOME, [59, 10.0]) == [True, 4]
    assert strategy.rank([False, 100]) < strategy.rank([True, 0])
    assert strategy.rank([True, 1]) < strategy.rank([True, 2])


def test_without_a_token_a_message_is_less_urgent_and_goes_elsewhere() -> None:
    desk = Desk()
    strategy = at(desk, TokenRate(tokens=2, interval_ms=1.0))
    messages = [arriving(100) for _ in range(5)]
    chosen = [strategy.enqueue(lessor(), message, ["a", "b"]) for message in messages]
    assert chosen[:2] == [None, None]
    assert sorted(chosen[2:4]) == ["a", "b"], "to each in turn"
    assert messages[1].deadline_ns == 100 < messages[2].deadline_ns
    other = SimpleNamespace(cost_ns=1.0, address=Address("other", "f", 0))
    assert strategy.enqueue(other, arriving(100), ["a"]) is None, "each job has its own"
    desk.now_ns = 2_000_000
    assert strategy.enqueue(lessor(), arriving(100), ["a"]) is None, "and new ones in each interval"


@pytest.mark.parametrize(
    ("task_ns", "stateless", "load", "chosen", "because"),
    [
        (0.0, True, 0.5, OFFLOADING, "nothing is measured"),
        (10 * LARGE_TASK_NS, True, 0.5, BINDING, "no state"),
        (ASKED_TASK_NS / 2, True, 9.0, OFFLOADING, "too little to ask"),
        (2 * ASKED_TASK_NS, False, 0.5, OFFLOADING, "too little to ask"),
        (2 * ASKED_TASK_NS, False, 9.0, BINDING, "keeps 9 workers busy"),
        (10 * LARGE_TASK_NS, False, 0.5, OFFLOADING, "best kept at home"),
        (10 * LARGE_TASK_NS, False, 9.0, BINDING, "keeps 9 workers busy"),
    ],
)
def test_the_chooser_goes_by_the_rules_and_says_why(
    task_ns: float, stateless: bool, load: float, chosen: str, because: str
) -> None:
    choice = choose(Profile(task_ns, stateless, load))
    assert choice.strategy == chosen
    assert because in choice.why
    assert chosen in STRATEGIES


def test_popularity_is_told_from_chance_and_changes() -> None:
    uneven = Popularity(0)
    uneven.add(3, 1)
    assert uneven.per_ns(1) == 0.0, "one message shows nothing"
    for number in range(1, 2_000):
        uneven.add(number % 8 if number % 2 else 0, 100 * number)
    assert 0.9 < uneven.per_ns(200_000) / (0.5 / 100) < 1.0, "half of them went to one"
    for number in range(2_000, 2_000 + 4 * REMEMBERED):
        uneven.add(number % 8, 100 * number)
    assert uneven.per_ns(100 * (2_000 + 4 * REMEMBERED)) < 0.2 / 100


def test_auto_goes_by_what_it_sees_and_can_be_asked_why() -> None:
    strategy = at(Desk(), Auto())
    assert strategy.why("f") is None, "no message has been sent to it from here"
    channel = place("a")
    channel.cost_ns = 20e6
    assert strategy.wants_direct(channel)
    assert strategy.why("f").startswith("laxity-direct: a task takes 20 ms and has no state")
    channel.cost_ns = 1e6
    assert strategy.prepare_send(channel, [place("b")], SimpleNamespace(channel=channel)) is channel


class Own(Strategy):
    """A user's."""


class Needy(Strategy):
    """A user's that cannot be made without help."""

    def __init__(self, size: int) -> None:
        self.size = size


def test_strategies_go_by_name_and_mistakes_are_told() -> None:
    for name in STRATEGIES:
        assert isinstance(strategy_named(name), Strategy)
    assert isinstance(strategy_named(f"{__name__}:Own"), Own)
    for name, fact in (
        ("nonsense", "there is no strategy 'nonsense'"),
        ("no.such:Thing", "cannot be imported"),
        ("json:JSONDecoder", "is not a strategy"),
        (f"{__name__}:Needy", "cannot be made"),
    ):
        with pytest.raises(UserError, match=fact):
            strategy_named(name)
