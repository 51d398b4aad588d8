"""What the actors of an attempt get from the one before: nothing counts before all of it is there."""

from __future__ import annotations

from stretto.protocol.handover import Bequest
from stretto.worker.handover.inheritance import Former, Inheritance


def given(number: int = 1, former: int = 0, piece: int = 0, pieces: int = 1, **more: object) -> Bequest:
    states = f"{former}.{piece}".encode()
    return Bequest("job~2", number, "f", former, piece, pieces, states, **more)  # type: ignore[arg-type]


def put(inheritance: Inheritance, sender: str, frame: Bequest) -> Former | None:
    former = inheritance.put(sender, frame)
    if former is not None:
        inheritance.take(frame.number, (frame.function, frame.former), former)
    return former


def test_pieces_are_put_together_in_their_order() -> None:
    inheritance = Inheritance({("f", 0)})
    assert put(inheritance, "w1", given(piece=1, pieces=2)) is None
    former = put(inheritance, "w1", given(piece=0, pieces=2))
    assert former is not None
    assert former.contents == (b"0.00.1",)
    assert inheritance.is_complete(1)


def test_an_actor_with_tasks_is_whole_when_all_have_given_their_parts() -> None:
    inheritance = Inheritance({("f", 0)})
    assert put(inheritance, "w2", given(is_part=True)) is None
    assert put(inheritance, "w1", given(tasks=("w2", "w3"))) is None
    assert not inheritance.is_complete(1)
    former = put(inheritance, "w3", given(is_part=True))
    assert former is not None
    assert len(former.contents) == 3


def test_it_is_complete_with_all_that_is_followed() -> None:
    inheritance = Inheritance({("f", 0), ("f", 1)})
    put(inheritance, "w1", given())
    assert not inheritance.is_complete(1)
    put(inheritance, "w1", given(former=1, finished=True))
    assert inheritance.is_complete(1)


def test_what_was_given_for_a_handover_that_was_called_off_does_not_count() -> None:
    inheritance = Inheritance({("f", 0), ("f", 1)})
    put(inheritance, "w1", given(number=1, former=0))
    put(inheritance, "w1", given(number=2, former=1))
    assert not inheritance.is_complete(2)
    assert put(inheritance, "w1", given(number=1, former=0)) is None, "it comes late"
    assert not inheritance.is_complete(2)
    put(inheritance, "w1", given(number=2, former=0))
    assert inheritance.is_complete(2)
