"""The rules of a checkpoint's journey through one worker: marks, snapshots, what is called off, and what is published.

A checkpoint is a chain of joint barriers from the sources to the sinks. `here~1` is the home of a source, of an actor
between, or of a sink.
"""

from __future__ import annotations

from tests.unit.worker.scenario import (
    COORDINATOR,
    NO_TIME,
    Appending,
    Scenario,
    abandon,
    ack,
    batch,
    begins_to_publish,
    checkpoint,
    critical,
    drain,
    end_of_input,
    finished,
    mark,
    overdue,
    publish,
    published,
    publishes,
    seals,
    snapshot,
    stored,
    sync_ack,
    sync_reply,
    sync_request,
    unstored,
    unsync,
    upto,
    watermark,
)

# Sources.


def test_a_source_sends_a_mark_between_two_reads_and_notes_its_position() -> None:
    s = Scenario.source()
    s.reads(1, 2)
    s.arrives(checkpoint(1), by=COORDINATOR)
    s.reads(3)
    assert s.sent_to("down~1") == [batch(1), batch(2), mark(1), batch(3)]
    assert s.snapshots() == [snapshot(1, remembered=[(0, 2)], finished=False)]


def test_a_source_that_reads_when_the_checkpoint_begins_sends_its_mark_after_what_it_reads() -> None:
    s = Scenario.source()
    with s.slow_run():
        s.reads(1)
        s.arrives(checkpoint(1), by=COORDINATOR)
        assert s.sent_to("down~1") == []
    assert s.sent_to("down~1") == [batch(1), mark(1)]
    assert s.snapshots() == [snapshot(1, remembered=[(0, 1)])]


def test_a_checkpoint_that_is_not_newer_than_the_last_is_ignored() -> None:
    s = Scenario.source()
    s.arrives(checkpoint(2), checkpoint(2), checkpoint(1), by=COORDINATOR)
    assert s.sent_to("down~1") == [mark(2)]
    assert s.snapshots() == [snapshot(2)]


def test_a_source_that_has_finished_has_no_part_in_checkpoints() -> None:
    s = Scenario.source()
    s.arrives(drain(), by=COORDINATOR)
    assert s.sent_to("down~1") == [end_of_input()]
    s.arrives(checkpoint(1), by=COORDINATOR)
    assert s.sent_to("down~1") == []
    assert s.snapshots() == []


def test_a_source_that_finishes_before_it_comes_to_its_mark_has_no_part_in_the_checkpoint() -> None:
    s = Scenario.source()
    with s.slow_run():
        s.arrives(drain(), by=COORDINATOR)
        s.arrives(checkpoint(1), by=COORDINATOR)
    assert s.sent_to("down~1") == [end_of_input()]
    assert s.snapshots() == []
    assert s.sent_to(COORDINATOR) == [finished(0)]


def test_a_source_does_not_send_the_mark_of_a_checkpoint_that_was_called_off() -> None:
    s = Scenario.source()
    with s.slow_run():
        s.reads(1)
        s.arrives(checkpoint(1), abandon(1), by=COORDINATOR)
    assert s.sent_to("down~1") == [batch(1)]
    assert s.snapshots() == []


def test_a_checkpoint_that_was_called_off_before_it_began_here_does_not_begin() -> None:
    s = Scenario.source()
    s.arrives(abandon(1), checkpoint(1), by=COORDINATOR)
    assert s.sent_to("down~1") == []
    s.arrives(checkpoint(2), by=COORDINATOR)
    assert s.sent_to("down~1") == [mark(2)]


# Marks at an actor.


def test_an_actor_takes_its_snapshot_at_the_mark_and_sends_the_mark_on() -> None:
    s = Scenario.alone()
    s.arrives(batch(1), mark(1), batch(2))
    assert s.snapshots() == [snapshot(1, state=[1], finished=False)]
    assert s.sent_to("down~1") == [batch(1), mark(1), batch(2)]


def test_an_actor_holds_back_what_follows_a_mark_until_the_marks_of_all_upstream_actors_are_there() -> None:
    s = Scenario.alone(ups=2)
    s.arrives(mark(1), batch(1), by="up~1")
    s.arrives(batch(2), by="up~2")
    assert s.seen == [batch(2)]
    assert s.snapshots() == []
    s.arrives(mark(1), by="up~2")
    assert s.seen == [batch(2), batch(1)]
    assert s.snapshots() == [snapshot(1, state=[2])]
    assert s.sent_to("down~1") == [batch(2), mark(1), batch(1)]


def test_an_upstream_actor_that_has_ended_sends_no_mark_and_is_not_waited_for() -> None:
    s = Scenario.alone(ups=2)
    s.arrives(end_of_input(), by="up~2")
    s.arrives(mark(1), by="up~1")
    assert s.snapshots() == [snapshot(1)]


def test_an_upstream_actor_that_ends_lets_the_marks_of_the_others_pass() -> None:
    s = Scenario.alone(ups=2)
    s.arrives(mark(1), by="up~1")
    assert s.snapshots() == []
    s.arrives(end_of_input(), by="up~2")
    assert s.snapshots() == [snapshot(1)]


def test_a_snapshot_has_how_far_event_time_is_on_each_channel() -> None:
    s = Scenario.alone(ups=2)
    s.arrives(watermark(10), mark(1), by="up~1")
    s.arrives(mark(1), by="up~2")
    channels = [("up 0", 10, False), ("up 1", NO_TIME, False)]
    assert s.snapshots() == [snapshot(1, channels=channels)]


def test_at_a_mark_lessees_give_their_partial_states_as_at_any_barrier() -> None:
    s = Scenario.lessor_of("lessee~1", durable=True)
    s.arrives(batch(2), mark(1, ack=True), batch(3))
    assert s.sent_to("lessee~1") == [sync_request(1, last=[upto("here~1", "lessee~1", 1)])]
    assert s.snapshots() == []
    s.arrives(sync_ack(1), by="lessee~1")
    assert s.sent_to("up~1") == [ack()]
    s.arrives(sync_reply(1, states=[1], told=[upto("lessee~1", "down~1", 4)]), by="lessee~1")
    assert s.snapshots() == [snapshot(1, state=[2, 1])]
    assert s.sent_to("down~1") == [batch(2), mark(1, last=[upto("lessee~1", "down~1", 4)], ack=True)]
    s.arrives(ack(), by="down~1")
    assert s.sent_to("lessee~1") == [unsync(1)]
    assert s.seen == [batch(2), batch(3)]


# The snapshot is stored, or not.


def test_a_snapshot_is_reported_when_it_is_durable_and_not_before() -> None:
    s = Scenario.alone()
    s.arrives(mark(1))
    assert s.sent_to(COORDINATOR) == []
    s.snapshot_stored(1)
    assert s.sent_to(COORDINATOR) == [stored(1)]


def test_a_snapshot_that_could_not_be_stored_is_reported_with_the_reason() -> None:
    s = Scenario.alone()
    s.arrives(mark(1))
    s.snapshot_failed(1, "the disk is full")
    assert s.sent_to(COORDINATOR) == [unstored(1, "the disk is full")]


def test_a_snapshot_has_the_fragments_of_the_last_one_and_what_is_new() -> None:
    s = Scenario.alone(function=Appending)
    s.arrives(batch(1), batch(2), mark(1))
    s.snapshot_stored(1)
    s.arrives(batch(3), mark(2))
    assert s.snapshots() == [snapshot(1, fragments=[[1, 2]]), snapshot(2, fragments=[[1, 2], [3]])]


def test_after_a_snapshot_that_could_not_be_stored_the_next_one_has_everything_again() -> None:
    s = Scenario.alone(function=Appending)
    s.arrives(batch(1), batch(2), mark(1))
    s.snapshot_failed(1, "the disk is full")
    s.arrives(batch(3), mark(2))
    assert s.snapshots() == [snapshot(1, fragments=[[1, 2]]), snapshot(2, fragments=[[1, 2, 3]])]


# A checkpoint is called off.


def test_a_checkpoint_that_is_called_off_releases_what_was_held_back_for_it() -> None:
    s = Scenario.alone(ups=2)
    s.arrives(mark(1), batch(1), by="up~1")
    assert s.seen == []
    s.arrives(abandon(1), by=COORDINATOR)
    assert s.seen == [batch(1)]
    assert s.snapshots() == []


def test_the_mark_of_a_checkpoint_that_was_called_off_is_void() -> None:
    s = Scenario.alone(ups=2)
    s.arrives(abandon(1), by=COORDINATOR)
    s.arrives(mark(1), batch(1), by="up~1")
    s.arrives(mark(1), batch(2), by="up~2")
    assert s.seen == [batch(1), batch(2)]
    assert s.snapshots() == []
    assert s.sent_to("down~1") == [batch(1), batch(2)], "downstream hears of it from the coordinator"


def test_a_void_mark_gets_its_ack() -> None:
    s = Scenario.lessor_of("lessee~1", durable=True)
    s.arrives(abandon(1), by=COORDINATOR)
    s.arrives(mark(1, ack=True))
    assert s.sent_to("up~1") == [ack()]
    assert s.sent_to("lessee~1") == []


def test_what_a_void_mark_depends_on_is_owed_to_the_next_barrier() -> None:
    s = Scenario.lessor_of("lessee~1", durable=True)
    s.arrives(abandon(1), by=COORDINATOR)
    s.arrives(mark(1, last=[upto("elsewhere~1", "lessee~1", 7)]), critical("flush"))
    owed = [upto("elsewhere~1", "lessee~1", 7), upto("here~1", "lessee~1", 1)]
    assert s.sent_to("lessee~1") == [sync_request(1, last=owed)]


def test_a_mark_whose_barrier_has_begun_is_passed_although_its_checkpoint_was_called_off() -> None:
    s = Scenario.lessor_of("lessee~1", durable=True)
    s.arrives(mark(1, ack=True))
    s.arrives(abandon(1), by=COORDINATOR)
    assert s.sent_to("up~1") == []
    s.arrives(sync_reply(1, states=[1]), by="lessee~1")
    assert s.sent_to("up~1") == [ack()]
    assert s.sent_to("down~1") == [mark(1)]
    s.arrives(ack(), by="down~1")
    assert s.sent_to("lessee~1") == [sync_request(1), unsync(1)]


def test_a_later_checkpoint_is_taken_after_one_that_was_called_off() -> None:
    s = Scenario.alone(ups=2)
    s.arrives(mark(1), by="up~1")
    s.arrives(abandon(1), by=COORDINATOR)
    s.arrives(mark(2), by="up~1")
    s.arrives(mark(1), mark(2), by="up~2")
    assert s.snapshots() == [snapshot(2)]
    assert s.sent_to("down~1") == [mark(2)]


# Joint barriers that cross.


CROSSED = unstored(1, "a joint barrier of the app's own came across it")


def test_a_mark_that_a_joint_message_of_the_user_crosses_is_declined() -> None:
    s = Scenario.alone(ups=2)
    s.arrives(mark(1), by="up~1")
    s.arrives(critical("flush", 2, joint=True), by="up~2")
    assert s.sent_to(COORDINATOR) == [CROSSED]


def test_a_mark_that_comes_after_a_joint_message_of_the_user_on_another_channel_is_declined() -> None:
    s = Scenario.alone(ups=2)
    s.arrives(critical("flush", 2, joint=True), by="up~2")
    s.arrives(mark(1), by="up~1")
    assert s.sent_to(COORDINATOR) == [CROSSED]


def test_a_mark_that_was_declined_is_void_and_the_joint_barrier_of_the_user_goes_ahead() -> None:
    s = Scenario.alone(ups=2)
    s.arrives(mark(1), batch(1), critical("flush", 1, joint=True), by="up~1")
    s.arrives(critical("flush", 2, joint=True), mark(1), by="up~2")
    assert s.seen == [batch(1), critical("flush")]
    assert s.snapshots() == []
    assert s.sent_to("down~1") == [batch(1)]


def test_joint_messages_that_all_upstream_actors_send_in_one_order_do_not_cross() -> None:
    s = Scenario.alone(ups=2)
    s.arrives(mark(1), critical("flush", 1, joint=True), by="up~1")
    s.arrives(mark(1), critical("flush", 2, joint=True), by="up~2")
    assert s.snapshots() == [snapshot(1)]
    assert s.seen == [critical("flush", [1, 2])]
    assert s.sent_to(COORDINATOR) == []


def test_of_the_marks_of_two_checkpoints_the_earlier_one_is_void() -> None:
    s = Scenario.alone(ups=2)
    s.arrives(mark(1), batch(1), mark(2), by="up~1")
    assert s.seen == []
    s.arrives(mark(2), by="up~2")
    assert s.seen == [batch(1)]
    assert s.snapshots() == [snapshot(2, state=[1])]
    assert s.sent_to("down~1") == [batch(1), mark(2)]


def test_an_overdue_checkpoint_is_declined_by_an_actor_that_waits_for_the_same_joint_message_as_last_time() -> None:
    s = Scenario.alone(ups=2)
    s.arrives(critical("flush", joint=True), by="up~1")
    s.arrives(overdue(1), by=COORDINATOR)
    assert s.sent_to(COORDINATOR) == []
    s.arrives(overdue(1), by=COORDINATOR)
    assert s.sent_to(COORDINATOR) == [unstored(1, "a joint barrier of the app's own waits for too long")]


def test_an_overdue_checkpoint_is_not_declined_where_another_joint_message_waits_than_last_time() -> None:
    s = Scenario.lessor(ups=2, durable=True)
    s.arrives(critical("flush", joint=True), by="up~1")
    s.arrives(overdue(1), by=COORDINATOR)
    s.arrives(critical("flush", joint=True), by="up~2")
    s.arrives(critical("flush", joint=True), by="up~1")
    s.arrives(overdue(1), by=COORDINATOR)
    assert s.sent_to(COORDINATOR) == []


def test_an_overdue_checkpoint_is_not_declined_by_an_actor_that_waits_for_a_mark() -> None:
    s = Scenario.alone(ups=2)
    s.arrives(mark(1), by="up~1")
    s.arrives(overdue(1), overdue(1), by=COORDINATOR)
    assert s.sent_to(COORDINATOR) == []


def test_an_overdue_checkpoint_is_not_declined_by_an_actor_that_has_passed_its_mark() -> None:
    s = Scenario.alone(ups=2)
    s.arrives(mark(1), critical("flush", joint=True), by="up~1")
    s.arrives(mark(1), by="up~2")
    s.arrives(overdue(1), overdue(1), by=COORDINATOR)
    assert s.sent_to(COORDINATOR) == []


def test_two_questions_about_different_checkpoints_do_not_add_up() -> None:
    s = Scenario.alone(ups=2)
    s.arrives(critical("flush", joint=True), by="up~1")
    s.arrives(overdue(1), overdue(2), by=COORDINATOR)
    assert s.sent_to(COORDINATOR) == []


# Sinks.


def test_a_sink_seals_at_the_mark_what_it_got_before_it() -> None:
    s = Scenario.sink()
    s.arrives(batch(1), mark(1), batch(2), mark(2))
    assert s.seen == [batch(1), seals(1), batch(2), seals(2)]
    assert s.snapshots() == [snapshot(1, remembered=[(1, [1])]), snapshot(2, remembered=[(1, [1]), (2, [2])])]


def test_a_sink_publishes_when_the_checkpoint_is_complete_and_not_before() -> None:
    s = Scenario.sink()
    s.arrives(batch(1), mark(1))
    s.snapshot_stored(1)
    assert s.seen == [batch(1), seals(1)]
    s.arrives(publish(1), by=COORDINATOR)
    assert s.seen == [batch(1), seals(1), publishes(1)]


def test_a_sink_reports_what_it_has_published_when_it_has() -> None:
    s = Scenario.sink()
    s.arrives(mark(1))
    with s.slow_run():
        s.arrives(publish(1), by=COORDINATOR)
        assert s.sent_to(COORDINATOR) == []
    assert s.sent_to(COORDINATOR) == [published(1)]


def test_a_sink_that_publishes_in_the_background_is_asked_until_it_has() -> None:
    s = Scenario.sink()
    s.publishes_in_the_background(asked=2)
    s.arrives(batch(1), mark(1))
    s.arrives(publish(1), by=COORDINATOR)
    s.time_passes(1)
    assert s.seen == [batch(1), seals(1), begins_to_publish(1)]
    s.arrives(batch(2))
    s.time_passes(10)
    assert s.sent_to(COORDINATOR) == []
    s.time_passes(10)
    assert s.seen[-3:] == [batch(2), begins_to_publish(1), publishes(1)]
    assert s.sent_to(COORDINATOR) == [published(1)]
    s.time_passes(10)
    assert s.seen[-1] == publishes(1)
    assert s.sent_to(COORDINATOR) == []


def test_a_finished_sink_that_publishes_in_the_background_is_asked_too() -> None:
    s = Scenario.sink()
    s.publishes_in_the_background(asked=1)
    s.arrives(batch(1), end_of_input())
    s.arrives(checkpoint(1), publish(1), by=COORDINATOR)
    assert s.sent_to(COORDINATOR) == [finished(0)]
    s.time_passes(10)
    assert s.sent_to(COORDINATOR) == [published(1)]


def test_only_sinks_publish() -> None:
    s = Scenario.alone()
    s.arrives(mark(1))
    s.arrives(publish(1), by=COORDINATOR)
    assert s.seen == []
    assert s.sent_to(COORDINATOR) == []


def test_a_sink_that_has_finished_still_has_a_part_in_checkpoints() -> None:
    s = Scenario.sink()
    s.arrives(batch(1), end_of_input())
    assert s.sent_to(COORDINATOR) == [finished(0)]
    s.arrives(checkpoint(1), by=COORDINATOR)
    assert s.seen[-1] == seals(1)
    assert s.snapshots() == [snapshot(1, remembered=[(1, [1])], finished=True)]


def test_a_sink_that_finishes_while_a_checkpoint_is_under_way_has_its_part_at_once() -> None:
    s = Scenario.sink()
    s.arrives(checkpoint(1), by=COORDINATOR)
    s.arrives(batch(1))
    assert s.snapshots() == []
    s.arrives(end_of_input())
    assert s.snapshots() == [snapshot(1, finished=True)]


def test_a_sink_that_finishes_after_the_mark_has_no_second_part_in_the_checkpoint() -> None:
    s = Scenario.sink()
    s.arrives(checkpoint(1), by=COORDINATOR)
    s.arrives(mark(1), end_of_input())
    assert s.snapshots() == [snapshot(1, finished=False)]
    assert s.sent_to(COORDINATOR) == [finished(1)]


def test_a_sink_that_has_finished_publishes() -> None:
    s = Scenario.sink()
    s.arrives(end_of_input())
    s.arrives(checkpoint(1), publish(1), by=COORDINATOR)
    assert s.seen[-2:] == [seals(1), publishes(1)]
    assert s.sent_to(COORDINATOR) == [finished(0), published(1)]


def test_other_actors_that_have_finished_have_no_part_in_checkpoints() -> None:
    s = Scenario.alone()
    s.arrives(end_of_input())
    s.arrives(checkpoint(1), by=COORDINATOR)
    assert s.snapshots() == []
