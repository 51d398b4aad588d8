"""The client's door: where calls go, when they go again, and which replies are answers."""

from __future__ import annotations

from stretto.protocol.machines import FrameArrived, Ticked
from stretto.protocol.transactions import Call, Look, Reply
from stretto.transactions.catalog import Catalog
from stretto.transactions.door import AGAIN_NS, Door
from stretto.transactions.entity import Entity, reads
from stretto.transactions.events import Answer


class Light(Entity):
    on: bool = False

    async def switch(self) -> bool:
        self.on = not self.on
        return self.on

    @reads
    async def look(self) -> bool:
        return self.on


def door(*members: str) -> Door:
    return Door("driver~1/a", Catalog([Light]), list(members), AGAIN_NS, 10 * AGAIN_NS)


def reply(number: int, client: str = "driver~1/a") -> FrameArrived:
    return FrameArrived("w1", Reply(client, number, b"\xc3", None, None, 7))


def test_a_call_is_sent_again_ever_more_rarely_until_it_is_answered() -> None:
    made = door("w1")
    number, sends = made.call(Light("a").switch(), 0)  # type: ignore[arg-type]
    assert [type(send.frame) for send in sends] == [Call]
    waits, now_ns = [], 0
    for _ in range(8):
        due_ns = made.next_deadline()
        assert due_ns is not None
        waits.append(due_ns - now_ns)
        now_ns = due_ns
        assert made.handle(Ticked(), now_ns) == sends
    assert waits[:3] == [AGAIN_NS, 2 * AGAIN_NS, 4 * AGAIN_NS]
    assert waits[-1] == 10 * AGAIN_NS
    assert [type(each) for each in made.handle(reply(number), now_ns)] == [Answer]
    assert made.next_deadline() is None
    assert made.handle(reply(number), now_ns) == []


def test_replies_to_an_earlier_client_are_not_answers() -> None:
    """After a restart its calls are replayed, and their replies come to the same process."""
    made = door("w1")
    number, _ = made.call(Light("a").switch(), 0)  # type: ignore[arg-type]
    assert made.handle(reply(number, client="driver~1/before"), 0) == []
    assert len(made.handle(reply(number), 0)) == 1


def test_calls_wait_for_workers_and_follow_the_entities() -> None:
    made = door()
    numbers = [made.call(Light(key).switch(), 0)[0] for key in "abcdefgh"]  # type: ignore[arg-type]
    assert made.next_deadline() is None
    sent = made.move(["w1", "w2"], 5)
    assert [send.frame.origin.number for send in sent] == numbers
    assert {send.to for send in sent} == {"w1", "w2"}
    made.handle(reply(numbers[0]), 6)
    again = made.move(["w1", "w3"], 7)
    assert [(send.to.replace("3", "2"), send.frame.origin.number) for send in again] == [
        (send.to, send.frame.origin.number) for send in sent[1:]
    ]
    assert {send.frame.origin.settled for send in again} == {0}


def test_what_only_reads_sees_at_least_what_was_answered() -> None:
    made = door("w1")
    number, _ = made.call(Light("a").switch(), 0)  # type: ignore[arg-type]
    made.handle(reply(number), 0)
    _, (send,) = made.call(Light("a").look(), 0)  # type: ignore[arg-type]
    assert isinstance(send.frame, Look)
    assert send.frame.since == 7
