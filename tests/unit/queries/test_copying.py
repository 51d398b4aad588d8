"""Which copies are ordered: by what is asked for, within a bound of memory, and to rest."""

from __future__ import annotations

from stretto.protocol.queries import Held, Hold, Piece, TableOpened
from stretto.queries.broker import Broker
from stretto.queries.copying import Copying

SIZE = 1_000


def brokered(segments: int, workers: int = 3) -> Broker:
    broker = Broker()
    broker.members([f"w{each}" for each in range(workers)], 0)
    pieces = [Piece(f"p{each}", each, each + 1, SIZE, [f"f{each}"]) for each in range(segments + 1)]
    broker.opened("w0", TableOpened("t", "app", 0, 1, 0, "dir", pieces))
    return broker


def carried_out(broker: Broker, copying: Copying) -> int:
    """Does what workers are asked to, until nothing more is; returns after how many rounds."""
    for number in range(50):
        change = copying.round_over(broker)
        sends, broker.sends = broker.sends, []
        for member, frame in sends:
            assert isinstance(frame, Hold)
            broker.held(member, Held("t", [each.name for each in frame.load], frame.drop))
            copying.reported(member, "t")
        if change is None:
            return number
    raise AssertionError("it does not come to rest")


def holders(broker: Broker) -> dict[str, int]:
    return {name: len(each) for name, each in broker.tables["t"].holders.items() if each}


def test_every_closed_segment_gets_a_copy_and_the_newest_does_not() -> None:
    broker, copying = brokered(6), Copying()
    assert carried_out(broker, copying) <= 3
    assert holders(broker) == {f"p{each}": 1 for each in range(6)}


def test_what_is_asked_for_gets_more_copies_and_loses_them_again() -> None:
    broker, copying = brokered(6), Copying()
    carried_out(broker, copying)
    for _ in range(4):
        broker.counted["t", "p3"] += 900
        broker.counted["t", "p1"] += 10
        carried_out(broker, copying)
    assert holders(broker)["p3"] == 3
    assert holders(broker)["p0"] == 1
    for _ in range(40):
        for each in range(6):
            broker.counted["t", f"p{each}"] += 10
        carried_out(broker, copying)
    assert sum(holders(broker).values()) <= 8


def test_copies_stay_within_the_memory_of_workers() -> None:
    broker, copying = brokered(9), Copying(memory_bytes=2 * SIZE)
    carried_out(broker, copying)
    held = {name: [p for p, each in broker.tables["t"].holders.items() if name in each] for name in broker.workers}
    assert all(len(pieces) <= 2 for pieces in held.values())
    assert sum(map(len, held.values())) == 6


def test_nobody_is_asked_again_before_it_has_reported() -> None:
    broker, copying = brokered(6), Copying()
    assert copying.round_over(broker) is not None
    sent = list(broker.sends)
    assert copying.round_over(broker) is None
    assert broker.sends == sent
    broker.members(["w1"], 1)
    broker.opened(
        "w1", TableOpened("t", "app~2", 0, 1, 0, "dir", [Piece("p0", 0, 1, SIZE, []), Piece("p1", 1, 2, SIZE, [])])
    )
    for member, _ in sent:
        copying.reported(member, "t")
    broker.sends = []
    assert copying.round_over(broker) is not None
