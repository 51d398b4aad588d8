"""Questions that wait for partitions: what they say meanwhile, and what becomes of them. Random runs: `simulate
queries`."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from stretto.actors.function import EVENT_TIME_MIN_US
from stretto.operators.publishing import PublishedRows, PublishSink
from stretto.protocol.queries import Ask, LivePart, Part, TableOpened, Waits
from stretto.queries.answers import Question, TableName
from stretto.queries.broker import Broker
from stretto.queries.pruning import EVERY
from stretto.queries.shelf import SAY_AGAIN_NS, Shelf

S = 1_000_000_000
HOUR_US = 3_600_000_000
SCHEMA = pa.schema([("at", pa.timestamp("us", tz="UTC"))])


@dataclass
class Home:
    """A partition whose event time a test sets."""

    watermark_us: int
    rows: PublishedRows = field(default_factory=lambda: PublishedRows(PublishSink("t", "at", HOUR_US, None), SCHEMA))


def shelved(*watermarks: int) -> tuple[Shelf, list[Home]]:
    shelf, homes = Shelf(), [Home(each) for each in watermarks]
    for number, home in enumerate(homes):
        shelf.partitions["t", "app", number] = home
    return shelf, homes


def ask(at_least: int | None, partitions: int = 1) -> Ask:
    live = [LivePart(each, "app", 0) for each in range(partitions)]
    schema, span = SCHEMA.serialize().to_pybytes(), (EVERY.first_us, EVERY.last_us)
    text = "SELECT count(*) AS c FROM t"
    return Ask(7, "t", text, "UTC", "at", schema, None, *span, HOUR_US, None, live, [], 10 * S, at_least)


def said(shelf: Shelf) -> list[Waits | Part]:
    found = [frame for _, frame in shelf.sends]
    shelf.sends = []
    return found


def test_it_says_what_it_waits_for_and_says_it_again_while_it_waits() -> None:
    shelf, (here, ahead) = shelved(EVENT_TIME_MIN_US, 3 * HOUR_US)
    shelf.ask("driver", ask(2 * HOUR_US, 2), 0)
    no_time = "it has no event time: a partition of what it is made of has neither had rows nor ended"
    assert said(shelf) == [Waits(7, [(0, no_time)])]
    here.watermark_us = HOUR_US
    shelf.look(SAY_AGAIN_NS - 1)
    assert said(shelf) == []
    shelf.look(SAY_AGAIN_NS)
    behind = "its event time is 1970-01-01T01:00:00+00:00, and not yet 1970-01-01T02:00:00+00:00"
    assert said(shelf) == [Waits(7, [(0, behind)])]
    here.watermark_us = 2 * HOUR_US
    shelf.look(SAY_AGAIN_NS + 1)
    waits, part = said(shelf)
    assert waits == Waits(7, [])
    assert isinstance(part, Part)
    assert {each.partition: each.watermark_us for each in part.live} == {0: 2 * HOUR_US, 1: ahead.watermark_us}


def test_one_that_need_not_wait_says_nothing_but_its_answer() -> None:
    shelf, _ = shelved(HOUR_US)
    shelf.ask("driver", ask(HOUR_US), 0)
    assert [type(each) for each in said(shelf)] == [Part]


def test_a_checkpoint_that_is_not_published_is_waited_for_by_name() -> None:
    shelf, (home,) = shelved(HOUR_US)
    home.rows.unread = 1
    shelf.ask("driver", ask(None), 0)
    assert said(shelf) == [Waits(7, [(0, "it has not published its last checkpoint yet")])]


def test_one_whose_time_is_over_is_given_up_unread() -> None:
    shelf, _ = shelved(0)
    shelf.ask("driver", ask(HOUR_US), 0)
    said(shelf)
    shelf.look(10 * S)
    assert not shelf.waits
    assert said(shelf) == []


def test_whoever_asked_is_told_which_partition_is_behind() -> None:
    broker = Broker()
    broker.members(["w0", "w1"], 0)
    for number, member in enumerate(("w0", "w0", "w1")):
        broker.opened(member, TableOpened("t", "app", number, 3, 0, None, []))
    name = TableName("t", "app", HOUR_US, "at")
    every = (EVERY.first_us, EVERY.last_us)
    broker.ask(Question("ticket", name, "SELECT at FROM t", "UTC", b"", None, *every, 10 * S, HOUR_US), 0)
    numbers = {to: frame.number for to, frame in broker.sends if isinstance(frame, Ask)}
    broker.waits("w0", Waits(numbers["w0"], [(1, "it is behind")]))
    broker.waits("w1", Waits(numbers["w0"], [(0, "said by somebody else")]))
    broker.waits("w1", Waits(numbers["w1"], [(2, "it was behind")]))
    broker.waits("w1", Waits(numbers["w1"], []))
    broker.tick(10 * S)
    assert list(map(str, broker.gathered[0].missing)) == [
        "partition 1: it is behind",
        "partition 0: worker w0 waits for partition 1",
        "partition 2: worker w1 has not answered in time",
    ]
