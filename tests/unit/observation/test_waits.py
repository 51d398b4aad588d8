"""How long functions wait for credits, and what checkpoints took, in observations of the production machines."""

from __future__ import annotations

from stretto.actors.metrics import FunctionMetrics, difference, merged
from stretto.actors.shape import FunctionShape
from stretto.observation.model import ActorObserved, FunctionObserved

SECOND_NS = 1_000_000_000


def actor(before: FunctionMetrics, totals: FunctionMetrics) -> ActorObserved:
    return ActorObserved(0, "w0~1", totals, before, SECOND_NS)


def test_the_wait_of_an_interval_is_its_share_by_the_function_that_is_waited_for() -> None:
    before = FunctionMetrics(busy_ns=1, waited_ns={"slow": 5 * SECOND_NS, "other": 7})
    totals = FunctionMetrics(busy_ns=2, waited_ns={"slow": 5 * SECOND_NS + SECOND_NS // 4, "other": 7})
    assert actor(before, totals).waits == {"slow": 0.25}


def test_waits_on_several_channels_at_once_are_the_whole_interval_at_most() -> None:
    totals = FunctionMetrics(busy_ns=2, waited_ns={"slow": 3 * SECOND_NS})
    assert actor(FunctionMetrics(), totals).waits == {"slow": 1.0}


def test_what_waited_when_it_last_ran_and_has_not_run_since_waits_all_the_time() -> None:
    totals = FunctionMetrics(busy_ns=5, waited_ns={"slow": 9}, waits_for=("slow",))
    assert actor(totals, totals).waits == {"slow": 1.0}
    free = FunctionMetrics(busy_ns=5, waited_ns={"slow": 9})
    assert actor(free, free).waits == {}


def test_a_function_waits_as_its_instances_do_on_average() -> None:
    waiting = actor(FunctionMetrics(), FunctionMetrics(busy_ns=1, waited_ns={"slow": SECOND_NS // 2}))
    idle = actor(FunctionMetrics(), FunctionMetrics(busy_ns=1))
    function = FunctionObserved(FunctionShape("f", 2), (waiting, idle))
    assert function.waits == {"slow": 0.25}
    assert function.waits_share == 0.25


def test_event_time_is_that_of_the_slowest_instance_that_has_one() -> None:
    parts = [FunctionMetrics(watermark_us=each) for each in (30, None, 20)]
    assert merged(parts).watermark_us == 20
    assert merged([FunctionMetrics()]).watermark_us is None
    assert difference(parts[0], parts[2]).watermark_us == 30


def test_waits_of_instances_are_added_and_subtracted() -> None:
    one, two = FunctionMetrics(waited_ns={"a": 3}, waits_for=("a",)), FunctionMetrics(waited_ns={"a": 4, "b": 1})
    total = merged([one, two])
    assert (total.waited_ns, total.waits_for) == ({"a": 7, "b": 1}, ("a",))
    assert difference(total, one).waited_ns == {"a": 4, "b": 1}
