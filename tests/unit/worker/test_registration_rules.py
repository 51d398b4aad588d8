"""The rules of DIRECTSEND: how a sender gets to know lessees of its receiver, and until when it may send to them.

First `here~1` is the lessor that is asked, then it is the sender that asks.
"""

from __future__ import annotations

import pytest
from tests.unit.worker.scenario import (
    Scenario,
    ack,
    batch,
    critical,
    hosts,
    lease,
    register,
    registered,
    schedule_reply,
    schedule_request,
    sync_reply,
    sync_request,
    unsync,
    upto,
    watermark,
)

from stretto.protocol.membership import COORDINATOR

BOTH = ["lessee~1", "lessee~2"]


# The lessor is asked.


def test_a_registration_is_answered_with_the_lessees_and_each_gets_a_lease() -> None:
    s = Scenario.lessor()
    s.arrives(register(0), by="up~1")
    assert s.sent_to("up~1") == [registered(0, lessees=BOTH)]
    assert s.sent_to("lessee~1") == [lease()]
    assert s.sent_to("lessee~2") == [lease()]


def test_no_more_lessees_are_given_than_the_actor_may_have() -> None:
    s = Scenario.lessor(lessees=1)
    s.arrives(register(0), by="up~1")
    assert s.sent_to("up~1") == [registered(0, lessees=["lessee~1"])]
    assert s.sent_to("lessee~2") == []


def test_a_lessee_that_holds_a_lease_gets_no_other() -> None:
    s = Scenario.lessor_of("lessee~1")
    s.arrives(register(0), by="up~1")
    assert s.sent_to("lessee~1") == []
    assert s.sent_to("lessee~2") == [lease()]


def test_a_lessee_that_was_given_to_a_sender_has_a_part_in_the_barrier() -> None:
    s = Scenario.lessor()
    s.arrives(register(0), by="up~1")
    s.arrives(critical("flush", last=[upto("up~1", "lessee~1", 3)]), by="up~1")
    assert s.sent_to("lessee~1") == [lease(), sync_request(1, last=[upto("up~1", "lessee~1", 3)])]
    assert s.sent_to("lessee~2") == [lease(), sync_request(1, last=[])]


def test_a_near_sender_gets_a_lessee_on_its_own_worker_and_no_other() -> None:
    s = Scenario.lessor(hosts=["lessee~1", "up~1"])
    s.arrives(register(0, near=True), by="up~1")
    assert s.sent_to("up~1") == [lease(), registered(0, lessees=["up~1"])]
    assert s.sent_to("lessee~1") == []


def test_a_near_sender_gets_none_if_the_actor_may_not_have_another_one() -> None:
    s = Scenario.lessor_of("lessee~1", hosts=["lessee~1", "up~1"])
    s.arrives(hosts(["lessee~1", "up~1"], lessees=1), by=COORDINATOR)
    s.arrives(register(0, near=True), by="up~1")
    assert s.sent_to("up~1") == [registered(0, lessees=[])]


def test_a_number_of_lessees_that_was_set_bounds_what_a_registration_gets() -> None:
    s = Scenario.lessor()
    s.arrives(hosts(BOTH, lessees=1), by=COORDINATOR)
    s.arrives(register(0), by="up~1")
    assert s.sent_to("up~1") == [registered(0, lessees=["lessee~1"])]


def test_a_near_sender_whose_worker_is_no_host_gets_none() -> None:
    s = Scenario.lessor()
    s.arrives(register(0, near=True), by="up~1")
    assert s.sent_to("up~1") == [registered(0, lessees=[])]
    assert s.sent_to("lessee~1") == []


def test_a_registration_from_before_the_last_critical_message_of_its_actor_gets_no_lessees() -> None:
    s = Scenario.lessor()
    s.arrives(critical("flush"), by="up~1")
    s.arrives(register(0), by="up~1")
    assert s.sent_to("up~1") == [registered(0, lessees=[])]
    assert s.sent_to("lessee~1") == []


def test_a_registration_waits_until_the_critical_messages_before_it_have_run() -> None:
    s = Scenario.lessor()
    s.arrives(register(1), by="up~1")
    assert s.sent_to("up~1") == []
    s.arrives(critical("flush"), by="up~1")
    assert s.sent_to("up~1") == [registered(1, lessees=BOTH)]


def test_a_registration_waits_for_a_critical_message_that_needs_no_barrier_too() -> None:
    s = Scenario.lessor(ups=2)
    s.arrives(register(1), by="up~1")
    assert s.sent_to("up~1") == []
    s.arrives(watermark(10), by="up~1")
    assert s.sent_to("up~1") == [registered(1, lessees=BOTH)]
    assert s.seen == []


def test_a_registration_waits_while_a_barrier_is_under_way() -> None:
    s = Scenario.lessor_of("lessee~1", ups=2)
    s.arrives(critical("flush"), by="up~1")
    s.arrives(register(0), by="up~2")
    assert s.sent_to("up~2") == []
    assert s.sent_to("lessee~2") == []
    s.arrives(sync_reply(1), by="lessee~1")
    assert s.sent_to("up~2") == [registered(0, lessees=BOTH)]


def test_a_registration_waits_until_downstream_has_come_to_the_critical_messages_of_the_actor() -> None:
    s = Scenario.lessor()
    s.arrives(watermark(10), by="up~1")
    s.arrives(register(1), by="up~1")
    assert s.sent_to("up~1") == []
    s.arrives(ack(), by="down~1")
    assert s.sent_to("up~1") == [registered(1, lessees=BOTH)]


def test_a_registration_of_an_actor_that_does_not_feed_this_one_is_refused() -> None:
    s = Scenario.lessor()
    s.arrives(register(0), by="elsewhere~1")
    assert s.sent_to("elsewhere~1") == []
    assert s.sent_to("lessee~1") == []
    assert "which it does not feed" in s.refused[-1]


def test_a_lessee_keeps_its_lease_until_the_next_critical_message_of_the_sender_that_may_use_it() -> None:
    s = Scenario.lessor(lessees=1, ups=2)
    s.arrives(register(0), by="up~1")
    for barrier, sender, keep in ((1, "up~2", True), (2, "up~2", True), (3, "up~1", False)):
        s.sent_to("lessee~1")
        s.arrives(critical("flush"), by=sender)
        s.arrives(sync_reply(barrier), by="lessee~1")
        assert s.sent_to("lessee~1") == [sync_request(barrier), unsync(barrier, keep=keep)]


# The sender asks.


def test_a_sender_asks_once_and_until_the_answer_the_lessor_gets_what_it_sends() -> None:
    s = Scenario.sender()
    s.arrives(batch(1), batch(2))
    assert s.sent_to("down~1") == [register(0, near=False), batch(1), batch(2)]


def test_a_sender_whose_strategy_does_not_want_lessees_does_not_ask() -> None:
    s = Scenario.sender(direct=False)
    s.arrives(batch(1))
    assert s.sent_to("down~1") == [batch(1)]


def test_a_near_sender_says_so() -> None:
    s = Scenario.sender(near=True)
    s.arrives(batch(1))
    assert s.sent_to("down~1") == [register(0, near=True), batch(1)]


def direct(**more: object) -> Scenario:
    """A sender that has sent batch 1 to the lessor and may send to `lessee~1`."""
    s = Scenario.sender(**more)
    s.arrives(batch(1))
    s.arrives(registered(0, lessees=["lessee~1"]), by="down~1")
    s.sent_to("down~1")
    return s


def test_after_the_answer_batches_go_to_lessees() -> None:
    s = direct()
    s.arrives(batch(2))
    assert s.sent_to("lessee~1") == [batch(2)]
    assert s.sent_to("down~1") == []


def test_critical_messages_go_to_the_lessor_and_say_how_far_was_sent_to_lessees() -> None:
    s = direct()
    s.arrives(batch(2), batch(3), watermark(10))
    assert s.sent_to("lessee~1") == [batch(2), batch(3)]
    assert s.sent_to("down~1")[0] == watermark(10, last=[upto("here~1", "lessee~1", 2)])


def test_a_critical_message_says_nothing_of_lessees_that_were_not_sent_to_since_the_last_one() -> None:
    s = direct()
    s.arrives(batch(2), watermark(10), watermark(20))
    sent = [said for said in s.sent_to("down~1") if said.kind == "watermark"]
    assert sent == [watermark(10, last=[upto("here~1", "lessee~1", 1)]), watermark(20, last=[])]


def test_a_lessor_that_sends_directly_says_so_beside_what_its_lessees_told() -> None:
    s = Scenario.lessor(down_lessees=2)
    s.forwards(batch(1), to="lessee~1")
    s.arrives(batch(2))
    s.arrives(registered(0, lessees=["lessee~2"]), by="down~1")
    s.arrives(batch(3), watermark(10))
    s.sent_to("down~1")
    s.arrives(sync_reply(1, told=[upto("lessee~1", "down~1", 5)]), by="lessee~1")
    last = [upto("lessee~1", "down~1", 5), upto("here~1", "lessee~2", 1)]
    assert s.sent_to("down~1") == [watermark(10, last=last)]


def test_after_a_critical_message_the_lessees_may_not_be_used_until_another_answer() -> None:
    s = direct()
    s.arrives(watermark(10), batch(2))
    assert s.sent_to("lessee~1") == []
    assert batch(2) in s.sent_to("down~1")
    s.arrives(registered(1, lessees=["lessee~1"]), by="down~1")
    s.arrives(batch(3))
    assert s.sent_to("lessee~1") == [batch(3)]


def test_a_sender_that_knows_lessees_asks_again_right_after_a_critical_message() -> None:
    s = direct()
    s.arrives(watermark(10))
    assert s.sent_to("down~1") == [watermark(10), register(1)]


def test_an_answer_from_before_the_last_critical_message_is_not_used() -> None:
    s = Scenario.sender()
    s.arrives(batch(1), watermark(10), batch(2))
    assert s.sent_to("down~1") == [register(0), batch(1), watermark(10), register(1), batch(2)]
    s.arrives(registered(0, lessees=["lessee~1"]), by="down~1")
    s.arrives(batch(3))
    assert s.sent_to("lessee~1") == []
    assert s.sent_to("down~1") == [batch(3)]


def test_an_answer_that_comes_during_a_barrier_of_the_sender_is_not_used() -> None:
    s = Scenario.lessor_of("lessee~1", down_lessees=2)
    s.arrives(batch(2), critical("flush"))
    s.arrives(registered(0, lessees=["lessee~2"]), by="down~1")
    s.arrives(sync_reply(1), by="lessee~1")
    s.arrives(batch(3))
    assert s.sent_to("lessee~2") == []
    assert s.sent_to("down~1") == [register(0), batch(2), batch(3)]


@pytest.mark.parametrize("lessees", [["lessee~1"], []], ids=["lessees", "none"])
def test_a_sender_that_waits_sends_nothing_until_the_answer_whatever_it_is(lessees: list[str]) -> None:
    s = Scenario.sender(waits=True)
    s.arrives(batch(1), batch(2))
    assert s.seen == [batch(1)]
    assert s.sent_to("down~1") == [register(0), batch(1)]
    s.arrives(registered(0, lessees=lessees), by="down~1")
    assert s.seen == [batch(1), batch(2)]
    assert s.sent_to(lessees[0] if lessees else "down~1") == [batch(2)]


def test_a_critical_message_waits_until_it_is_decided_where_the_batches_before_it_go() -> None:
    s = direct()
    s.asks_before_it_sends()
    s.arrives(batch(2), watermark(10))
    assert s.sent_to("lessee~1") == [schedule_request(1)]
    assert s.sent_to("down~1") == []
    s.arrives(schedule_reply(1), by="lessee~1")
    assert s.sent_to("down~1")[:2] == [batch(2), watermark(10)]
