"""The queue of two levels and the policies: who runs first, for how long, and that nobody waits for ever."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stretto.actors.address import Address
from stretto.actors.channel import Message
from stretto.actors.mailbox import Mailbox
from stretto.actors.seat import Demand, NextRead
from stretto.actors.work import OPEN
from stretto.errors import UserError
from stretto.scheduling.policies import EDF, FIFO, LLF, SJF, FairShare, Policy, policy_named
from stretto.scheduling.ready import QUANTUM_NS, STARVED_AFTER_NS, TURNS_PER_LATE_TURN, ReadyQueue

MS = 1_000_000


class Some(SimpleNamespace):
    """Like a seat, equal to itself alone."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def seat(name: str, *deadlines: int, cost_ns: float = 0.0, job: str = "job", latency_ns: int = 1_000 * MS) -> Any:
    """As much of a seat as the queue looks at: messages with these deadlines."""
    messages = Mailbox()
    for at in deadlines:
        messages.append(Message(None, 0, None, 0, None, None, at), at)  # type: ignore[arg-type]
    return Some(
        address=Address(job, name, 0),
        mailbox=messages,
        cost_ns=cost_ns,
        latency_ns=latency_ns,
        demand=Demand(),
        share=1.0,
        poll_due=False,
        next_read=None,
        queued=False,
        dropped=False,
        starved=0,
        sends_nothing=False,
        entry=0,
        keeper=None,
        rest=None,
    )


def run(queue: ReadyQueue, *seats: Any, now_ns: int = 0, step_ns: int = 0) -> list[str]:
    """Run everything; each message takes `step_ns`. The names in the order they ran."""
    for one in seats:
        queue.enqueue(one)
    order = []
    while (chosen := queue.next_seat(now_ns)) is not None:
        chosen.mailbox.popleft()
        order.append(chosen.address.function)
        now_ns += step_ns
        queue.policy.spent(chosen, step_ns, now_ns)
        queue._now_ns = now_ns
        if chosen.mailbox:
            queue.enqueue(chosen)
    return order


def test_the_least_deadline_runs_first_under_llf() -> None:
    queue = ReadyQueue(LLF(), quantum_ns=0)
    assert run(queue, seat("a", 30, 31), seat("b", 10, 40), seat("c", 20)) == ["b", "c", "a", "a", "b"]


def test_a_barrier_is_as_urgent_as_its_critical_message_whatever_waits_behind_it() -> None:
    """Else what came for the next window, with its later deadline, would hold the last window's result back."""
    closing, other = seat("closing", 90), seat("other", 50)
    critical = [Message(None, 0, None, 0, None, None, 10)]  # type: ignore[arg-type]
    closing.keeper = SimpleNamespace(urgent=lambda seat: critical)
    assert run(ReadyQueue(LLF(), 0), other, closing) == ["closing", "other"]


def test_edf_adds_what_the_function_itself_costs() -> None:
    late_but_long, soon_but_short = seat("long", 10, cost_ns=50), seat("short", 20, cost_ns=1)
    assert run(ReadyQueue(LLF(), 0), late_but_long, soon_but_short) == ["long", "short"]
    late_but_long, soon_but_short = seat("long", 10, cost_ns=50), seat("short", 20, cost_ns=1)
    assert run(ReadyQueue(EDF(), 0), late_but_long, soon_but_short) == ["short", "long"]


def test_sjf_goes_by_cost_and_fifo_takes_turns() -> None:
    assert run(ReadyQueue(SJF(), 0), seat("dear", 1, 1, cost_ns=9), seat("cheap", 9, 9, cost_ns=1)) == [
        *["cheap"] * 2,
        *["dear"] * 2,
    ]
    assert run(ReadyQueue(FIFO(), 0), seat("a", 9, 9), seat("b", 1, 1)) == ["a", "b", "a", "b"]


def test_who_runs_keeps_the_worker_for_a_quantum() -> None:
    first, second = seat("a", *[10] * 4), seat("b", *[5] * 2)
    queue = ReadyQueue(LLF(), quantum_ns=QUANTUM_NS)
    queue.enqueue(first)
    assert queue.next_seat(0) is first
    queue.enqueue(first)
    queue.enqueue(second)  # More urgent, and it must wait for the end of the quantum.
    assert queue.next_seat(QUANTUM_NS // 2) is first
    queue._now_ns = QUANTUM_NS
    queue.enqueue(first)
    assert queue.next_seat(QUANTUM_NS) is second


def test_a_message_that_takes_longer_than_the_quantum_is_the_last_of_its_turn() -> None:
    """The queue is told the time only when it is asked who is next: a turn must not last for one message more."""
    bulk, urgent = seat("bulk", *[10] * 4), seat("urgent", 5)
    queue = ReadyQueue(LLF())
    queue.enqueue(bulk)
    assert queue.next_seat(0) is bulk
    queue.enqueue(urgent)
    queue.enqueue(bulk)
    assert queue.next_seat(2 * QUANTUM_NS) is urgent


def test_an_instance_gets_a_better_place_when_its_next_message_has_become_more_urgent() -> None:
    queue = ReadyQueue(LLF(), 0)
    lax, middle = seat("lax", 90), seat("middle", 50)
    for one in (lax, middle):
        queue.enqueue(one)
    queue.hurry(lax)
    lax.mailbox.append(Message(None, 0, None, 0, None, None, 10), 10)  # type: ignore[arg-type]
    queue.hurry(lax)
    assert [queue.next_seat(now).address.function for now in (0, 1)] == ["lax", "middle"]  # type: ignore[union-attr]
    assert queue.next_seat(2) is None, "its former place does not count"
    fifo = ReadyQueue(FIFO(), 0)
    first, second = seat("first", 1), seat("second", 2)
    for one in (first, second):
        fifo.enqueue(one)
    fifo.hurry(first)
    assert fifo.next_seat(0) is first, "a policy without deadlines keeps its order"


def test_what_others_wait_for_comes_before_all_messages() -> None:
    opening = seat("opening")
    opening.mailbox.append(OPEN)
    assert run(ReadyQueue(LLF(), 0), seat("urgent", -5), opening) == ["opening", "urgent"]


def test_what_is_left_of_a_message_is_as_urgent_as_it_and_as_all_behind_it() -> None:
    queue = ReadyQueue(quantum_ns=0)
    alone, ahead, other = seat("alone"), seat("ahead", 10), seat("other", 20)
    alone.rest = ahead.rest = Message(None, 0, None, 0, None, None, 30)  # type: ignore[arg-type]
    for one in (alone, ahead, other):
        queue.enqueue(one)
    assert [queue.next_seat(1) for _ in range(3)] == [ahead, other, alone]


def test_a_source_is_as_urgent_as_what_it_would_read() -> None:
    source = seat("source")
    source.poll_due, source.next_read = True, NextRead(15)
    queue = ReadyQueue(LLF(), 0)
    for one in (seat("later", 20), source, seat("sooner", 10)):
        queue.enqueue(one)
    assert [queue.next_seat(0).address.function for _ in range(3)] == ["sooner", "source", "later"]  # type: ignore[union-attr]


@pytest.mark.parametrize("policy", [LLF, EDF])
def test_who_is_hopelessly_late_steps_aside_for_those_that_can_be_in_time(policy: type[Policy]) -> None:
    """Else what cannot be saved makes late what could be in time (thesis figure 5.10)."""
    now_ns = 1_000 * MS
    hopeless, a_little_late = seat("hopeless", 700 * MS), seat("a little late", 800 * MS)
    in_time, lax = seat("in time", 1_001 * MS), seat("lax", 5_000 * MS)
    order = run(ReadyQueue(policy(), MS), hopeless, lax, in_time, a_little_late, now_ns=now_ns, step_ns=MS)
    assert order == ["a little late", "in time", "lax", "hopeless"]
    lax, patient = seat("lax", 5_000 * MS), seat("patient", 700 * MS, latency_ns=10_000 * MS)
    assert run(ReadyQueue(policy(), MS), lax, patient, now_ns=now_ns, step_ns=MS) == ["patient", "lax"]


def test_who_feeds_somebody_hopelessly_late_steps_aside_and_comes_after_it() -> None:
    """What it would send comes to the end of the same queue: the queue would never end while it is served first."""
    source, middle, late = seat("source", 1_010 * MS), seat("middle", 1_005 * MS), seat("late", 700 * MS, 701 * MS)
    beside, other = seat("beside", 1_020 * MS), seat("other", 2_000 * MS, job="other")
    middle.demand.below = (late.demand,)
    source.demand.below = (middle.demand, late.demand, beside.demand)
    seats = (source, middle, late, beside, other)
    order = run(ReadyQueue(LLF(), MS), *seats, now_ns=1_000 * MS, step_ns=MS)
    assert order == ["beside", "other", "late", "late", "middle", "source"]


def test_who_fed_somebody_hopelessly_late_is_as_urgent_as_before_when_that_has_run() -> None:
    queue = ReadyQueue(LLF(), 0)
    source, late, other = seat("source", 1_005 * MS, 1_006 * MS), seat("late", 700 * MS), seat("other", 2_000 * MS)
    source.demand.below = (late.demand,)
    for one in (source, late):
        queue.enqueue(one)
    assert queue.next_seat(1_000 * MS) is late
    assert queue.next_seat(1_001 * MS) is source
    source.mailbox.popleft()
    queue.enqueue(source)
    queue.enqueue(other)
    assert queue.next_seat(1_002 * MS) is source, "nobody is late any more"


@pytest.mark.parametrize("policy", [LLF, EDF])
def test_of_those_that_are_due_together_the_one_that_takes_most_of_the_worker_runs_last(policy: type[Policy]) -> None:
    """On an overloaded worker, one is late then where several would be."""
    greedy, modest, later = seat("greedy", 20 * MS), seat("modest", 20 * MS), seat("later", 90 * MS)
    greedy.demand.handicap_ns, modest.demand.handicap_ns = 50.0 * MS, 1.0 * MS
    assert run(ReadyQueue(policy(), 0), greedy, later, modest) == ["modest", "greedy", "later"]


def test_who_is_hopelessly_late_keeps_a_part_of_the_worker() -> None:
    """Its checkpoints and its catching up must not wait until nobody else has work."""
    cost = {"cost_ns": 2.0 * MS}
    hopeless, in_time = seat("hopeless", *[0] * 100, **cost), seat("in time", *[90_000 * MS] * 400, **cost)
    order = run(ReadyQueue(LLF(), MS), hopeless, in_time, now_ns=1_000 * MS, step_ns=2 * MS)
    contested = order[: order.index("hopeless") + 300]
    assert contested.count("hopeless") * (TURNS_PER_LATE_TURN + 1) == pytest.approx(len(contested), rel=0.05)


def test_who_is_hopelessly_late_gets_all_that_others_leave_the_oldest_first() -> None:
    order = run(ReadyQueue(LLF(), MS), seat("b", 20, 25), seat("a", 10, 30), now_ns=1_000 * MS, step_ns=MS)
    assert order == ["a", "b", "b", "a"]


def test_a_message_that_must_run_at_once_brings_a_late_instance_back() -> None:
    queue = ReadyQueue(LLF(), MS)
    late, in_time = seat("late", 10), seat("in time", *[9_000 * MS] * 3)
    for one in (late, in_time):
        queue.enqueue(one)
    assert queue.next_seat(1_000 * MS) is in_time
    queue.enqueue(in_time)
    late.mailbox.append(OPEN)
    queue.hurry(late)
    assert queue.next_seat(1_001 * MS) is late
    assert queue.next_seat(1_002 * MS) is in_time
    assert queue.next_seat(1_003 * MS) is None, "its place among the late does not count any more"


def test_forgetting_a_job_and_a_new_order_reach_those_that_are_hopelessly_late() -> None:
    queue = ReadyQueue(LLF(), MS)
    late, gone, in_time = seat("late", 10, 11), seat("gone", 5, job="gone"), seat("in time", *[9_000 * MS] * 3)
    for one in (late, gone, in_time):
        queue.enqueue(one)
    assert queue.next_seat(1_000 * MS) is in_time
    assert queue.waiting() == 3
    queue.forget("gone")
    assert queue.waiting() == 2
    queue.rerank()
    assert queue.waiting() == 2
    assert queue.next_seat(1_000 * MS) is late
    assert queue.next_seat(1_000 * MS) is None


class Unfair(Policy):
    """Never lets one of them run."""

    def urgency(self, instance: Any, what: Any) -> float:
        return 1.0 if instance.address.function == "loser" else 0.0


def test_nobody_waits_for_longer_than_the_bound() -> None:
    queue = ReadyQueue(Unfair(), quantum_ns=0)
    order = run(queue, seat("loser", 0), seat("winner", *[0] * 200), step_ns=50 * MS)
    waited_ns = order.index("loser") * 50 * MS
    assert STARVED_AFTER_NS <= waited_ns <= STARVED_AFTER_NS + 50 * MS


def test_an_instance_without_credits_or_of_a_dropped_job_is_passed_over() -> None:
    starved, dropped, good = seat("starved", 1), seat("dropped", 2, job="gone"), seat("good", 3)
    queue = ReadyQueue(LLF(), 0)
    for one in (starved, dropped, good):
        queue.enqueue(one)
    starved.starved = 1
    queue.forget("gone")
    assert queue.next_seat(0) is good
    assert not starved.queued
    assert queue.next_seat(0) is None
    assert queue.idle


@pytest.mark.parametrize("shares", [{"a": 20, "b": 40, "c": 40}, {"a": 1, "b": 1, "c": 2}])
def test_shares_hold_while_all_compete(shares: dict[str, float]) -> None:
    jobs = [seat(job, *[0] * 4_000, job=job) for job in shares]
    contested = run(ReadyQueue(FairShare(shares), quantum_ns=0), *jobs, step_ns=MS)[:2_000]
    for job, share in shares.items():
        assert abs(contested.count(job) / len(contested) - share / sum(shares.values())) < 0.03


def test_shares_hold_for_jobs_of_several_functions_and_as_apps_state_them() -> None:
    jobs = {"a": 20.0, "b": 40.0, "c": 40.0}
    queue, waiting = ReadyQueue(FairShare(), quantum_ns=0), []
    for job, share in jobs.items():
        for number in range(3 if job == "a" else 2):
            one = seat(f"{job}{number}", *[0] * 4_000, job=job)
            one.share = share
            waiting.append(one)
    contested = [name[0] for name in run(queue, *waiting, step_ns=MS)[:2_000]]
    for job, share in jobs.items():
        assert abs(contested.count(job) / len(contested) - share / 100) < 0.01


def test_an_idle_share_is_lent_and_not_claimed_back() -> None:
    queue = ReadyQueue(FairShare({"small": 20, "large": 80}), quantum_ns=0)
    assert run(queue, seat("small", *[0] * 1_000, job="small"), step_ns=MS) == ["small"] * 1_000
    both = [seat(job, *[0] * 1_000, job=job) for job in ("small", "large")]
    contested = run(queue, *both, step_ns=MS)[:1_000]
    assert 0.77 < contested.count("large") / 1_000 < 0.83


def test_policies_by_name_and_by_module() -> None:
    assert isinstance(policy_named("edf"), EDF)
    assert isinstance(policy_named("stretto.scheduling.policies:SJF"), SJF)
    for wrong, fact in (
        ("nonsense", "no policy"),
        ("nowhere:Policy", "cannot be imported"),
        ("json:loads", "not a policy"),
    ):
        with pytest.raises(UserError, match=fact):
            policy_named(wrong)
