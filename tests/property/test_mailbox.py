"""A mailbox against a plain list: the most urgent first, each channel in order, whatever is taken out of order."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stretto.actors.channel import Message
from stretto.actors.deadlines import AT_ONCE
from stretto.actors.mailbox import Entry, Mailbox
from stretto.actors.work import FIRE_TIMERS

CHANNELS = 3


class Channel:
    """The part of a channel that a mailbox uses."""

    def __init__(self) -> None:
        self.urgency = AT_ONCE
        self.received = 0


def message(channel: Channel) -> Message:
    channel.received += 1
    end: Any = channel
    return Message(end, channel.received, None, 0)


puts = st.tuples(st.just("put"), st.integers(0, CHANNELS - 1), st.integers(0, 5))
takes = st.tuples(st.sampled_from(["pop", "remove", "hold", "put back"]), st.integers(0, 9), st.just(0))


@given(steps=st.lists(puts | takes, max_size=60))
def test_it_behaves_as_a_sorted_list(steps: list[tuple[str, int, int]]) -> None:
    mailbox, channels = Mailbox(), [Channel() for _ in range(CHANNELS)]
    model: list[tuple[float, int, Message]] = []
    held: list[tuple[float, int, Message]] = []
    entries: list[Entry] = []
    for number, (step, which, urgency) in enumerate(steps):
        if step == "put":
            channel = channels[which]
            one = message(channel)
            mailbox.append_message(one, float(urgency))
            # Messages ahead of it on its channel must run before it, and so are as urgent.
            for place, (key, earlier, other) in enumerate(model):
                if other.channel is channel:
                    model[place] = (min(key, float(urgency)), earlier, other)
            model.append((float(urgency), number, one))
        elif model and step == "remove":
            taken = model.pop(which % len(model))
            mailbox.remove(taken[2])
            assert not mailbox.holds(taken[2])
        elif step == "put back":
            mailbox.put_back(entries)
            entries.clear()
            for key, earlier, one in reversed(held):
                later = [other[0] for other in model if other[2].channel is one.channel and other[1] > earlier]
                model.append((min([key, *later]), earlier, one))
            held.clear()
        elif model:
            first = min(model, key=lambda entry: entry[:2])
            assert mailbox.first[2] is first[2]
            popped = mailbox.pop_entry()
            assert popped[2] is first[2]
            model.remove(first)
            if step == "hold":
                held.append(first)
                entries.append(popped)
        assert len(mailbox) == len(model)
        assert bool(mailbox) == bool(model)
        ordered = [entry[2] for entry in sorted(model, key=lambda entry: entry[:2])]
        assert [id(work) for work in mailbox] == [id(one) for one in ordered]
        for channel in channels:
            mine = [one.seq for one in ordered if one.channel is channel]
            assert mine == sorted(mine), "messages of a channel run in order"


def test_urgent_messages_run_first_and_a_mailbox_can_be_cleared() -> None:
    mailbox, channel = Mailbox(), Channel()
    usual, critical = message(channel), message(Channel())
    mailbox.append_message(usual, 5.0)
    mailbox.append_message(critical, AT_ONCE)
    mailbox.append(FIRE_TIMERS, AT_ONCE)
    assert [mailbox.popleft(), mailbox.popleft(), mailbox.popleft()] == [critical, FIRE_TIMERS, usual]
    mailbox.append_message(message(channel), 1.0)
    mailbox.clear()
    assert not mailbox
    assert list(mailbox) == []


def test_a_message_out_of_order_takes_its_place_in_its_channel() -> None:
    mailbox, channel = Mailbox(), Channel()
    first, second = message(channel), message(channel)
    mailbox.append_message(second, 7.0)
    mailbox.append_message(first, 3.0)
    assert mailbox.first[:1] == (3.0,)
    third = message(channel)
    mailbox.append_message(third, 8.0)
    assert list(mailbox) == [first, second, third]


def test_a_message_that_is_put_back_keeps_the_order_of_its_channel() -> None:
    """A watermark was taken out, then a batch of the next window that is more urgent: the watermark stays ahead."""
    mailbox, channel = Mailbox(), Channel()
    watermark, batch = message(channel), message(channel)
    channel.received = 1
    mailbox.append_message(watermark, 9.0)
    held = [mailbox.pop_entry()]
    channel.received = 2
    mailbox.append_message(batch, 4.0)
    held.append(mailbox.pop_entry())
    mailbox.put_back(held)
    assert list(mailbox) == [watermark, batch]
    assert mailbox.first[0] == 4.0
