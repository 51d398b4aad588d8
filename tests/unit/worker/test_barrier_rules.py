"""The rules of a barrier at the lessor, step by step, as events go in and effects come out.

The steps are those of the docstring of the leasing part. `here~1` is the lessor of the actor.
"""

from __future__ import annotations

import pytest
from tests.unit.worker.scenario import (
    COORDINATOR,
    Scenario,
    Sharing,
    ack,
    batch,
    critical,
    end_of_input,
    hosts,
    hosts_left,
    lease,
    offered,
    registered,
    schedule_reply,
    sync_ack,
    sync_reply,
    sync_request,
    unsync,
    upto,
    watermark,
)

# Leases.


def test_a_lease_precedes_the_first_message_to_a_lessee() -> None:
    s = Scenario.lessor()
    s.forwards(batch(1), to="lessee~1")
    s.forwards(batch(2), to="lessee~1")
    assert s.sent_to("lessee~1") == [lease(), batch(1), batch(2)]
    assert s.seen == []


def test_a_lease_says_how_far_event_time_is_and_how_many_critical_messages_the_actor_has_sent() -> None:
    s = Scenario.lessor()
    s.arrives(watermark(10), watermark(20))
    s.arrives(ack(), ack(), by="down~1")
    s.forwards(batch(1), to="lessee~1")
    assert s.sent_to("lessee~1") == [lease(watermark=20, criticals=2), batch(1)]


# Step 1: the lessor comes to the critical message.


def test_what_precedes_the_critical_message_on_its_channel_runs_first() -> None:
    s = Scenario.lessor(may_refuse=True)
    s.forwards(batch(1), to="lessee~1")
    s.arrives(critical("flush"))
    s.sent_to("lessee~1")
    s.arrives(offered(1, taken=False), by="lessee~1")
    assert s.seen == [batch(1)]
    assert s.sent_to("lessee~1") == [sync_request(1)]


def test_what_follows_the_critical_message_on_its_channel_is_held_back_and_other_channels_are_not() -> None:
    s = Scenario.lessor(ups=2)
    s.arrives(critical("flush", last=[upto("elsewhere~1", "here~1", 1)]), batch(2))
    s.arrives(batch(3), by="up~2")
    assert s.seen == [batch(3)]


def test_once_the_barrier_has_begun_nothing_runs_on_any_channel() -> None:
    s = Scenario.lessor_of("lessee~1", ups=2)
    s.arrives(critical("flush"))
    s.arrives(batch(3), by="up~2")
    s.arrives(batch(4), by="elsewhere~1")
    assert s.seen == []


def test_a_request_goes_to_every_lessee_that_holds_a_lease() -> None:
    s = Scenario.lessor_of("lessee~1", "lessee~2")
    s.arrives(critical("flush"))
    assert s.sent_to("lessee~1") == [sync_request(1)]
    assert s.sent_to("lessee~2") == [sync_request(1)]


def test_a_request_names_what_was_forwarded_to_the_lessee() -> None:
    s = Scenario.lessor_of("lessee~1", "lessee~2")
    s.forwards(batch(3), to="lessee~2")
    s.arrives(critical("flush"))
    assert s.sent_to("lessee~1")[-1] == sync_request(1, last=[upto("here~1", "lessee~1", 1)])
    assert s.sent_to("lessee~2")[-1] == sync_request(1, last=[upto("here~1", "lessee~2", 2)])


def test_a_request_names_what_upstream_has_sent_to_the_lessee_and_to_nobody_else() -> None:
    s = Scenario.lessor_of("lessee~1", "lessee~2")
    s.arrives(critical("flush", last=[upto("elsewhere~1", "lessee~2", 5)]))
    assert s.sent_to("lessee~1") == [sync_request(1, last=[upto("here~1", "lessee~1", 1)])]
    expected = [upto("elsewhere~1", "lessee~2", 5), upto("here~1", "lessee~2", 1)]
    assert s.sent_to("lessee~2") == [sync_request(1, last=expected)]


def test_what_the_payload_names_of_the_lessor_itself_runs_before_the_barrier_begins() -> None:
    s = Scenario.lessor_of("lessee~1")
    s.arrives(critical("flush", last=[upto("elsewhere~1", "here~1", 2)]))
    s.arrives(batch(3), by="elsewhere~1")
    assert s.sent_to("lessee~1") == []
    s.arrives(batch(4), by="elsewhere~1")
    assert s.seen == [batch(3), batch(4)]
    assert s.sent_to("lessee~1") == [sync_request(1)]


def test_no_barrier_begins_while_it_is_not_known_who_runs_a_forwarded_message() -> None:
    s = Scenario.lessor(may_refuse=True)
    s.forwards(batch(1), to="lessee~1")
    s.arrives(critical("flush"))
    assert s.sent_to("lessee~1") == [lease(), batch(1)]
    s.arrives(offered(1, taken=True), by="lessee~1")
    assert s.sent_to("lessee~1") == [sync_request(1, last=[upto("here~1", "lessee~1", 1)])]


def test_a_message_that_was_offered_delays_the_barriers_of_other_channels_too() -> None:
    s = Scenario.lessor(may_refuse=True, ups=2)
    s.forwards(batch(1), to="lessee~1", by="up~2")
    s.arrives(critical("flush"))
    assert s.sent_to("lessee~1") == [lease(), batch(1)]
    s.arrives(offered(1, taken=True), by="lessee~1")
    assert s.sent_to("lessee~1") == [sync_request(1)]


def test_a_message_that_the_lessee_refuses_runs_at_the_lessor() -> None:
    s = Scenario.lessor(may_refuse=True)
    s.forwards(batch(1), to="lessee~1")
    assert s.seen == []
    s.arrives(offered(1, taken=False), by="lessee~1")
    assert s.seen == [batch(1)]


def test_a_watermark_that_others_hold_back_needs_no_barrier_and_gets_its_ack() -> None:
    s = Scenario.lessor_of("lessee~1", ups=2)
    s.arrives(watermark(10, ack=True))
    assert s.sent_to("lessee~1") == []
    assert s.sent_to("up~1") == [ack()]
    assert s.seen == []
    s.arrives(batch(3))
    assert s.seen == [batch(3)]


def test_what_a_noted_watermark_depends_on_is_owed_to_the_next_barrier() -> None:
    s = Scenario.lessor_of("lessee~1", ups=2)
    s.arrives(watermark(10, last=[upto("elsewhere~1", "lessee~1", 7)]))
    s.arrives(watermark(10), by="up~2")
    owed = [upto("elsewhere~1", "lessee~1", 7), upto("here~1", "lessee~1", 1)]
    assert s.sent_to("lessee~1") == [sync_request(1, last=owed)]


def test_what_a_noted_watermark_depends_on_at_the_lessor_delays_the_next_barrier() -> None:
    s = Scenario.lessor(ups=2)
    s.arrives(watermark(10, last=[upto("elsewhere~1", "here~1", 1)]))
    s.arrives(watermark(10), by="up~2")
    assert s.seen == []
    s.arrives(batch(1), by="elsewhere~1")
    assert s.seen == [batch(1), watermark(10)]


def test_what_was_owed_is_asked_for_once() -> None:
    s = Scenario.lessor_of("lessee~1", ups=2)
    s.arrives(watermark(10, last=[upto("elsewhere~1", "lessee~1", 7)]))
    s.arrives(critical("flush"))
    s.arrives(sync_reply(1), by="lessee~1")
    s.forwards(batch(2), to="lessee~1")
    s.sent_to("lessee~1")
    s.arrives(critical("flush"))
    assert s.sent_to("lessee~1") == [sync_request(2, last=[upto("here~1", "lessee~1", 2)])]


def test_critical_messages_that_wait_together_share_a_barrier() -> None:
    s = Scenario.lessor_of("lessee~1", ups=2)
    s.arrives(critical("flush", last=[upto("elsewhere~1", "here~1", 1)], ack=True), by="up~1")
    s.arrives(critical("clear", last=[upto("elsewhere~1", "here~1", 1)], ack=True), by="up~2")
    s.arrives(batch(3), by="elsewhere~1")
    assert s.sent_to("lessee~1") == [sync_request(1)]
    s.arrives(sync_reply(1), by="lessee~1")
    assert s.seen == [batch(3), critical("flush"), critical("clear")]
    assert (s.sent_to("up~1"), s.sent_to("up~2")) == ([ack("up 0")], [ack("up 1")])
    assert s.sent_to("lessee~1") == [unsync(1)]


def test_a_critical_message_that_comes_to_its_turn_after_a_barrier_has_begun_gets_another_barrier() -> None:
    s = Scenario.lessor_of("lessee~1", ups=2)
    s.arrives(critical("flush"), by="up~1")
    s.arrives(critical("clear"), by="up~2")
    s.arrives(sync_reply(1), by="lessee~1")
    assert s.seen == [critical("flush")]
    assert s.sent_to("lessee~1") == [sync_request(1), unsync(1), sync_request(2)]


def test_a_critical_message_with_nothing_before_it_does_not_queue_behind_other_channels() -> None:
    s = Scenario.lessor(ups=2)
    with s.busy():
        s.arrives(batch(1), by="up~2")
        s.arrives(critical("flush"), by="up~1")
    assert s.seen == [critical("flush"), batch(1)]


def test_an_actor_without_lessees_runs_the_critical_message_at_once() -> None:
    s = Scenario.lessor()
    s.arrives(watermark(10, ack=True))
    assert s.seen == [watermark(10)]
    assert s.sent_to("up~1") == [ack()]


def test_an_actor_without_lessees_does_not_wait_for_the_acks_of_downstream() -> None:
    s = Scenario.lessor()
    s.arrives(watermark(10), batch(1), watermark(20))
    assert s.sent_to("down~1") == [watermark(10, ack=True), batch(1), watermark(20, ack=True)]


# Step 3: the ACK to upstream.


def test_upstream_gets_its_ack_when_all_lessees_have_acknowledged_and_not_before() -> None:
    s = Scenario.lessor_of("lessee~1", "lessee~2")
    s.arrives(critical("flush", ack=True))
    s.arrives(sync_ack(1), by="lessee~1")
    assert s.sent_to("up~1") == []
    s.arrives(sync_ack(1), by="lessee~2")
    assert s.sent_to("up~1") == [ack("up 0")]
    assert s.seen == [], "no reply is here"


def test_a_reply_is_an_acknowledgement_too() -> None:
    s = Scenario.lessor_of("lessee~1", "lessee~2")
    s.arrives(critical("flush", ack=True))
    s.arrives(sync_reply(1), by="lessee~1")
    s.arrives(sync_ack(1), by="lessee~2")
    assert s.sent_to("up~1") == [ack()]


def test_upstream_gets_one_ack_although_lessees_acknowledge_and_reply() -> None:
    s = Scenario.lessor_of("lessee~1")
    s.arrives(critical("flush", ack=True))
    s.arrives(sync_ack(1), sync_reply(1), by="lessee~1")
    assert s.sent_to("up~1") == [ack()]


def test_a_lessee_that_acknowledges_twice_does_not_speak_for_another() -> None:
    s = Scenario.lessor_of("lessee~1", "lessee~2")
    s.arrives(critical("flush", ack=True))
    s.arrives(sync_ack(1), sync_ack(1), by="lessee~1")
    assert s.sent_to("up~1") == []


def test_an_acknowledgement_of_an_earlier_barrier_does_not_count() -> None:
    s = Scenario.lessor_of("lessee~1")
    s.arrives(critical("flush"))
    s.arrives(sync_reply(1), by="lessee~1")
    s.arrives(critical("flush", ack=True))
    s.arrives(sync_ack(1), by="lessee~1")
    assert s.sent_to("up~1") == []
    s.arrives(sync_ack(2), by="lessee~1")
    assert s.sent_to("up~1") == [ack()]


def test_upstream_gets_no_ack_that_it_has_not_asked_for() -> None:
    s = Scenario.lessor_of("lessee~1")
    s.arrives(critical("flush", last=[upto("elsewhere~1", "lessee~1", 1)]))
    s.arrives(sync_reply(1), by="lessee~1")
    assert s.seen == [critical("flush")]
    assert s.sent_to("up~1") == []


# Step 4: the critical run.


def test_the_critical_message_runs_only_with_the_replies_of_all_lessees() -> None:
    s = Scenario.lessor_of("lessee~1", "lessee~2")
    s.arrives(critical("flush"))
    s.arrives(sync_ack(1), by="lessee~1")
    s.arrives(sync_reply(1), by="lessee~2")
    assert s.seen == []
    s.arrives(sync_reply(1), by="lessee~1")
    assert s.seen == [critical("flush")]


def test_the_critical_message_sees_the_states_of_all_instances_merged() -> None:
    s = Scenario.lessor_of("lessee~1", "lessee~2")
    s.arrives(batch(3), critical("flush"))
    s.arrives(sync_reply(1, states=[1]), by="lessee~1")
    s.arrives(sync_reply(1, states=[2]), by="lessee~2")
    assert sorted(s.state) == [1, 2, 3]


def test_what_the_lessees_have_told_goes_with_the_critical_message_to_downstream() -> None:
    s = Scenario.lessor_of("lessee~1", "lessee~2")
    s.arrives(watermark(10))
    s.arrives(sync_reply(1, told=[upto("lessee~1", "down~1", 4)]), by="lessee~1")
    s.arrives(sync_reply(1, told=[upto("lessee~2", "down~1", 9)]), by="lessee~2")
    told = [upto("lessee~1", "down~1", 4), upto("lessee~2", "down~1", 9)]
    assert s.sent_to("down~1") == [watermark(10, last=told, ack=True)]


def test_each_downstream_channel_gets_what_was_told_of_it() -> None:
    s = Scenario.lessor_of("lessee~1", downs=2)
    s.arrives(watermark(10))
    told = [upto("lessee~1", "down~1", 4), upto("lessee~1", "down~2", 5)]
    s.arrives(sync_reply(1, told=told), by="lessee~1")
    assert s.sent_to("down~1") == [watermark(10, last=told[:1])]
    assert s.sent_to("down~2") == [watermark(10, last=told[1:])]


def test_what_was_told_is_kept_until_a_critical_message_is_sent() -> None:
    s = Scenario.lessor_of("lessee~1")
    s.arrives(critical("flush"))
    s.arrives(sync_reply(1, told=[upto("lessee~1", "down~1", 4)]), by="lessee~1")
    assert s.sent_to("down~1") == []
    s.arrives(watermark(10))
    s.arrives(sync_reply(2), by="lessee~1")
    assert s.sent_to("down~1") == [watermark(10, last=[upto("lessee~1", "down~1", 4)])]


def test_what_was_told_goes_downstream_once() -> None:
    s = Scenario.lessor_of("lessee~1")
    s.arrives(watermark(10))
    s.arrives(sync_reply(1, told=[upto("lessee~1", "down~1", 4)]), by="lessee~1")
    s.arrives(ack(), by="down~1")
    s.sent_to("down~1")
    s.arrives(watermark(20))
    s.arrives(sync_reply(2), by="lessee~1")
    assert s.sent_to("down~1") == [watermark(20, last=[])]


@pytest.mark.parametrize("barrier", [0, 2])
def test_a_reply_to_another_barrier_is_ignored(barrier: int) -> None:
    s = Scenario.lessor_of("lessee~1")
    s.arrives(critical("flush"))
    s.arrives(sync_reply(barrier, states=[99]), by="lessee~1")
    assert s.seen == []
    s.arrives(sync_reply(1, states=[1]), by="lessee~1")
    assert s.state == [1]


def test_a_reply_of_a_worker_that_holds_no_lease_is_ignored() -> None:
    s = Scenario.lessor_of("lessee~1")
    s.arrives(critical("flush"))
    s.arrives(sync_reply(1, states=[99]), by="lessee~2")
    assert s.seen == []
    s.arrives(sync_reply(1, states=[1]), by="lessee~1")
    assert s.state == [1]


def test_a_lessee_that_replies_twice_does_not_speak_for_another() -> None:
    s = Scenario.lessor_of("lessee~1", "lessee~2")
    s.arrives(critical("flush"))
    s.arrives(sync_reply(1, states=[1]), sync_reply(1, states=[1]), by="lessee~1")
    assert s.seen == []
    s.arrives(sync_reply(1, states=[2]), by="lessee~2")
    assert s.state == [1, 2]


def test_an_actor_that_may_have_no_lessees_asks_for_no_ack() -> None:
    s = Scenario.sender()
    s.arrives(batch(1), watermark(10))
    assert s.sent_to("down~1")[-1] == watermark(10, last=[], ack=False)


# Step 5: the barrier ends.


def test_the_barrier_ends_with_the_acks_of_all_actors_downstream() -> None:
    s = Scenario.lessor_of("lessee~1", downs=2)
    s.arrives(watermark(10))
    s.arrives(sync_reply(1), by="lessee~1")
    s.sent_to("lessee~1")
    s.arrives(ack(), by="down~1")
    assert s.sent_to("lessee~1") == []
    s.arrives(ack(), by="down~2")
    assert s.sent_to("lessee~1") == [unsync(1)]


def test_a_barrier_that_sends_nothing_downstream_ends_at_once() -> None:
    s = Scenario.lessor_of("lessee~1")
    s.arrives(critical("flush"))
    s.arrives(sync_reply(1), by="lessee~1")
    assert s.sent_to("lessee~1") == [sync_request(1), unsync(1)]


def test_an_actor_that_has_finished_does_not_wait_for_acks() -> None:
    s = Scenario.lessor_of("lessee~1")
    s.arrives(end_of_input())
    s.arrives(sync_reply(1), by="lessee~1")
    assert s.sent_to("down~1") == [end_of_input()]
    assert s.sent_to("lessee~1") == [sync_request(1), unsync(1)]


def test_unsync_says_how_far_event_time_is_and_how_many_critical_messages_the_actor_has_sent() -> None:
    s = Scenario.lessor_of("lessee~1")
    s.arrives(watermark(10))
    s.arrives(sync_reply(1), by="lessee~1")
    s.arrives(ack(), by="down~1")
    assert s.sent_to("lessee~1") == [sync_request(1), unsync(1, watermark=10, criticals=1)]


def test_what_was_held_back_runs_when_the_barrier_is_over() -> None:
    s = Scenario.lessor_of("lessee~1")
    s.arrives(watermark(10), batch(2))
    s.arrives(sync_reply(1), by="lessee~1")
    assert s.seen == [watermark(10)]
    s.arrives(ack(), by="down~1")
    assert s.seen == [watermark(10), batch(2)]


def test_what_was_held_back_before_the_barrier_began_runs_after_it_in_its_order() -> None:
    s = Scenario.lessor()
    s.arrives(critical("flush", last=[upto("elsewhere~1", "here~1", 1)]), batch(2), batch(3))
    s.arrives(batch(1), by="elsewhere~1")
    assert s.seen == [batch(1), critical("flush"), batch(2), batch(3)]


def test_a_lessee_keeps_its_lease_if_it_had_something_to_do_since_the_last_barrier() -> None:
    s = Scenario.lessor_of("lessee~1")
    s.arrives(critical("flush"))
    s.arrives(sync_reply(1), by="lessee~1")
    assert s.sent_to("lessee~1") == [sync_request(1), unsync(1, keep=True)]


def test_a_lessee_that_had_nothing_to_do_since_the_last_barrier_loses_its_lease() -> None:
    s = Scenario.lessor_of("lessee~1")
    s.arrives(critical("flush"))
    s.arrives(sync_reply(1), by="lessee~1")
    s.arrives(critical("flush"))
    s.arrives(sync_reply(2), by="lessee~1")
    assert s.sent_to("lessee~1")[-2:] == [sync_request(2), unsync(2, keep=False)]


def released() -> Scenario:
    """The lessor after its lessee has lost its lease."""
    s = Scenario.lessor_of("lessee~1")
    for barrier in (1, 2):
        s.arrives(critical("flush"))
        s.arrives(sync_reply(barrier), by="lessee~1")
    assert s.sent_to("lessee~1")[-1] == unsync(2, keep=False)
    return s


def test_a_lessee_that_has_lost_its_lease_has_no_part_in_barriers() -> None:
    s = released()
    s.arrives(critical("flush"))
    assert s.sent_to("lessee~1") == []
    assert s.seen == [critical("flush")] * 3


def test_a_lessee_that_has_lost_its_lease_gets_another_before_the_next_message() -> None:
    s = released()
    s.forwards(batch(2), to="lessee~1")
    assert s.sent_to("lessee~1") == [lease(), batch(2)]
    s.arrives(critical("flush"))
    assert s.sent_to("lessee~1") == [sync_request(3, last=[upto("here~1", "lessee~1", 2)])]


def test_a_worker_that_is_no_host_any_more_loses_its_lease_at_the_next_barrier() -> None:
    s = Scenario.lessor_of("lessee~1")
    s.arrives(hosts(["lessee~2"]), by=COORDINATOR)
    assert s.sent_to(COORDINATOR) == []
    s.arrives(critical("flush"))
    s.arrives(sync_reply(1), by="lessee~1")
    assert s.sent_to("lessee~1")[-1] == unsync(1, keep=False)
    assert s.sent_to(COORDINATOR) == [hosts_left()]


def test_an_actor_that_may_have_fewer_lessees_loses_the_newest_at_the_next_barrier() -> None:
    s = Scenario.lessor_of("lessee~1", "lessee~2")
    s.arrives(hosts(["lessee~1", "lessee~2"], lessees=1), by=COORDINATOR)
    s.forwards(batch(3), to="lessee~2")
    assert s.sent_to("lessee~2") == [], "it gets nothing new"
    s.arrives(critical("flush"))
    s.arrives(sync_reply(1), by="lessee~1")
    s.arrives(sync_reply(1), by="lessee~2")
    assert s.sent_to("lessee~1")[-1] == unsync(1, keep=True)
    assert s.sent_to("lessee~2")[-1] == unsync(1, keep=False)
    s.arrives(hosts(["lessee~1", "lessee~2"], lessees=2), by=COORDINATOR)
    s.forwards(batch(4), to="lessee~2")
    assert s.sent_to("lessee~2") == [lease(), batch(4)], "it may have more again"


def test_nothing_is_forwarded_while_acks_are_outstanding() -> None:
    s = Scenario.lessor()
    s.arrives(watermark(10))
    s.forwards(batch(1), to="lessee~1")
    assert s.sent_to("lessee~1") == []
    assert s.seen == [watermark(10), batch(1)]
    s.arrives(ack(), by="down~1")
    s.forwards(batch(2), to="lessee~1")
    assert s.sent_to("lessee~1") == [lease(), batch(2)]


def test_nothing_that_follows_a_critical_message_of_its_sender_is_forwarded_before_that_has_run() -> None:
    s = Scenario.lessor(ups=2)
    s.prefers("lessee~1")
    s.arrives(critical("flush", last=[upto("elsewhere~1", "here~1", 1)]), batch(2))
    assert s.sent_to("lessee~1") == []
    s.arrives(batch(3), by="up~2")
    assert s.sent_to("lessee~1") == [lease(), batch(3)], "it follows nothing"


def test_what_waited_during_a_barrier_may_be_forwarded_after_it() -> None:
    s = Scenario.lessor_of("lessee~1")
    s.prefers("lessee~1")
    s.arrives(watermark(10), batch(2))
    s.arrives(sync_reply(1), by="lessee~1")
    s.sent_to("lessee~1")
    s.arrives(ack(), by="down~1")
    assert s.sent_to("lessee~1") == [unsync(1), batch(2)]
    assert s.seen == [watermark(10)]


def test_what_waited_is_forwarded_only_up_to_the_next_critical_message_of_its_sender() -> None:
    s = Scenario.lessor_of("lessee~1")
    s.prefers("lessee~1")
    s.arrives(critical("flush"), batch(2), critical("clear"), batch(3))
    s.sent_to("lessee~1")
    s.arrives(sync_reply(1), by="lessee~1")
    assert s.sent_to("lessee~1") == [unsync(1), batch(2), sync_request(2, last=[upto("here~1", "lessee~1", 2)])]


def test_an_ack_that_nobody_waits_for_does_not_count_for_the_next_barrier() -> None:
    s = Scenario.lessor_of("lessee~1")
    s.arrives(ack(), by="down~1")
    s.arrives(watermark(10))
    s.arrives(sync_reply(1), by="lessee~1")
    assert s.sent_to("lessee~1") == [sync_request(1)]


def unacked(**more: object) -> Scenario:
    """A lessor without lessees that has sent a watermark and waits for its ACK."""
    s = Scenario.lessor(ups=2, **more)
    s.arrives(watermark(10), by="up~1")
    s.arrives(watermark(10), by="up~2")
    s.prefers("lessee~1")
    return s


def test_an_ack_that_comes_during_the_critical_run_does_not_end_the_barrier() -> None:
    s = unacked()
    with s.slow_run():
        s.arrives(critical("flush"), by="up~1")
        s.arrives(batch(1), by="up~2")
        s.arrives(ack(), by="down~1")
        assert s.sent_to("lessee~1") == []
    assert s.seen[-1] == critical("flush")
    assert s.sent_to("lessee~1") == [lease(), batch(1)]


def test_an_ack_that_comes_while_the_critical_run_waits_to_send_does_not_end_the_barrier() -> None:
    s = unacked(down_lessees=2)
    s.arrives(batch(1))
    s.arrives(registered(1, lessees=["lessee~2"]), by="down~1")
    s.asks_before_it_sends()
    s.arrives(batch(2), watermark(20), by="up~2")
    s.arrives(watermark(20), by="up~1")
    s.arrives(batch(3), by="up~2")
    s.arrives(ack(), by="down~1")
    assert s.sent_to("lessee~1") == []
    s.arrives(schedule_reply(1), by="lessee~2")
    assert watermark(20, ack=True) in s.sent_to("down~1")
    assert s.sent_to("lessee~1") == [], "the ACK of the second watermark is awaited"


# Joint barriers.


def test_a_joint_barrier_waits_for_a_critical_message_of_every_upstream_actor() -> None:
    s = Scenario.lessor_of("lessee~1", ups=2)
    s.arrives(critical("flush", 1, joint=True))
    s.arrives(batch(3), by="up~2")
    assert s.sent_to("lessee~1") == []
    s.arrives(critical("flush", 2, joint=True), by="up~2")
    assert s.sent_to("lessee~1") == [sync_request(1)]
    s.arrives(sync_reply(1), by="lessee~1")
    assert s.seen == [batch(3), critical("flush", [1, 2])]


def test_a_joint_barrier_holds_back_what_follows_on_each_channel() -> None:
    s = Scenario.lessor(ups=2)
    s.arrives(critical("flush", 1, joint=True), batch(1))
    assert s.seen == []
    s.arrives(critical("flush", 2, joint=True), batch(2), by="up~2")
    assert s.seen == [critical("flush", [1, 2]), batch(1), batch(2)]


def test_the_payloads_of_a_joint_barrier_are_in_the_order_of_the_actors_whoever_comes_first() -> None:
    s = Scenario.lessor(ups=2)
    s.arrives(critical("flush", 2, joint=True), by="up~2")
    s.arrives(critical("flush", 1, joint=True))
    assert s.seen == [critical("flush", [1, 2])]


def test_an_upstream_actor_that_has_ended_is_not_waited_for() -> None:
    s = Scenario.lessor(ups=2)
    s.arrives(end_of_input(), by="up~2")
    s.arrives(critical("flush", 1, joint=True))
    assert s.seen == [critical("flush", [1])]


def test_an_upstream_actor_that_ends_while_it_is_waited_for_lets_the_joint_barrier_begin() -> None:
    s = Scenario.lessor(ups=2)
    s.arrives(critical("flush", 1, joint=True))
    assert s.seen == []
    s.arrives(end_of_input(), by="up~2")
    assert s.seen == [critical("flush", [1])]


def test_a_critical_message_of_one_channel_does_not_wait_for_a_joint_barrier() -> None:
    s = Scenario.lessor(ups=2)
    s.arrives(critical("flush", 1, joint=True))
    s.arrives(critical("clear"), by="up~2")
    assert s.seen == [critical("clear")]


# State that is shared.


def test_unsync_brings_the_consolidated_state_to_the_lessees() -> None:
    s = Scenario.lessor_of("lessee~1", function=Sharing)
    s.arrives(batch(2), critical("flush"))
    s.arrives(sync_reply(1, states=[1]), by="lessee~1")
    assert s.sent_to("lessee~1")[-1] == unsync(1, states=[2, 1])
    s.arrives(batch(3))
    assert s.log.consolidated == [2, 1], "the lessor reads the same"


def test_a_lease_brings_the_consolidated_state_of_the_last_barrier() -> None:
    s = Scenario.lessor(function=Sharing)
    s.arrives(batch(1), critical("flush"), batch(2))
    s.forwards(batch(3), to="lessee~1")
    assert s.sent_to("lessee~1") == [lease(states=[1]), batch(3)]


def test_a_lessee_that_loses_its_lease_gets_no_state() -> None:
    s = Scenario.lessor_of("lessee~1", function=Sharing)
    s.arrives(hosts([]), by=COORDINATOR)
    s.arrives(critical("flush"))
    s.arrives(sync_reply(1, states=[1]), by="lessee~1")
    assert s.sent_to("lessee~1")[-1] == unsync(1, keep=False, states=[])


def test_a_function_that_does_not_read_it_is_sent_no_state() -> None:
    s = Scenario.lessor_of("lessee~1")
    s.arrives(critical("flush"))
    s.arrives(sync_reply(1, states=[1]), by="lessee~1")
    assert s.sent_to("lessee~1")[-1] == unsync(1, keep=True, states=[])
