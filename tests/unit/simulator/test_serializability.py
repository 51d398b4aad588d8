"""The serializability checker: on histories whose verdict is known, and against all serial orders of small ones."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import chain, combinations, permutations

import pytest

from stretto.errors import UserError
from stretto.simulator.checking.serializability import (
    NO_EVIDENCE,
    Append,
    Order,
    Outcome,
    Read,
    Transaction,
    check,
)
from stretto.simulator.checking.serializability.cycles import components
from stretto.simulator.checking.serializability.dependencies import Dependency, Kind, real_time


def operation(text: str) -> Append | Read:
    """Reads "x+1" (append 1 to x) and "x=12" (x was read as [1, 2])."""
    key, sign, values = text[0], text[1], text[2:]
    return Append(key, int(values)) if sign == "+" else Read(key, tuple(map(int, values)))


def committed(name: str, text: str, began: int = 0, ended: int = 100) -> Transaction:
    return Transaction(name, tuple(map(operation, text.split())), Outcome.COMMITTED, began, ended)


def aborted(name: str, text: str) -> Transaction:
    return Transaction(name, tuple(map(operation, text.split())), Outcome.ABORTED, 0, 100)


def unknown(name: str, text: str) -> Transaction:
    return Transaction(name, tuple(map(operation, text.split())), Outcome.UNKNOWN, 0, None)


SOUND = {
    "serial": [committed("a", "x= x+1", 0, 1), committed("b", "x=1 x+2", 2, 3), committed("c", "x=12", 4, 5)],
    "own appends are seen": [committed("a", "x+1 x=1 x+2 x=12"), committed("b", "x=12 x+3 x=123")],
    "a reader of the past that overlaps": [committed("a", "x+1"), committed("b", "x="), committed("c", "x=1")],
    "nobody has read the last appends": [committed("a", "x+1"), committed("b", "x=1 x+2"), committed("c", "x=1 x+3")][
        :2
    ],
    "an unanswered append that nobody saw": [committed("a", "x+1"), unknown("b", "x+2"), committed("c", "x=1")],
    "an unanswered append that was seen": [committed("a", "x+1"), unknown("b", "x+2"), committed("c", "x=12")],
    "an aborted append that nobody saw": [committed("a", "x+1"), aborted("b", "x+2"), committed("c", "x=1")],
    "one that was aborted may have read anything": [
        committed("a", "x+1 x+2"),
        aborted("b", "x=2"),
        committed("c", "x=12"),
    ],
}

# The name of the anomaly that each history shows.
BAD = {
    "dirty write": ("G0", [committed("a", "x+1 y+1"), committed("b", "x+2 y+2"), committed("c", "x=12 y=21")]),
    "aborted read": ("G1a", [committed("a", "x+1"), aborted("b", "x+2"), committed("c", "x=12")]),
    "intermediate read": ("G1b", [committed("a", "x+1 x+2"), committed("b", "x=1"), committed("c", "x=12")]),
    "circular information flow": ("G1c", [committed("a", "x+1 y=2"), committed("b", "y+2 x=1")]),
    "read skew": ("G-single", [committed("a", "x+1 y+1"), committed("b", "x= y=1"), committed("c", "x=1 y=1")]),
    "fractured read of a write that is not seen": ("G-single", [committed("a", "x+1 y+1"), committed("b", "x= y=1")]),
    "lost update": ("G-single", [committed("a", "x= x+1"), committed("b", "x= x+2"), committed("c", "x=12")]),
    "lost update that nobody has read": (
        "G-single",
        [committed("z", "x+1"), committed("a", "x=1 x+2"), committed("b", "x=1 x+3"), committed("c", "x=12")],
    ),
    "write skew": (
        "G2",
        [committed("a", "x= y= x+1"), committed("b", "x= y= y+2"), committed("c", "x=1 y=2")],
    ),
    "long fork": (
        "G2",
        [committed("a", "x+1"), committed("b", "y+2"), committed("c", "x=1 y="), committed("d", "x= y=2")],
    ),
    "snapshot isolation: three skewed writes": (
        "G2",
        [
            committed("z", "w+9"),
            committed("a", "w=9 x= y+1"),
            committed("b", "w=9 y= z+2"),
            committed("c", "w=9 z= x+3"),
            committed("d", "x=3 y=1 z=2"),
        ],
    ),
    "snapshot isolation: the read-only transaction": (
        "G2",
        # Fekete, O'Neil and O'Neil: without the reader, the two writers would be serializable.
        [committed("a", "y= y+2"), committed("b", "x= y= x+3"), committed("c", "x= y=2"), committed("d", "x=3 y=2")],
    ),
    "stale read": (
        "G-single-realtime",
        [committed("a", "x+1", 0, 1), committed("b", "x=", 2, 3), committed("c", "x=1")],
    ),
    "lost append": ("lost-append", [committed("a", "x+1", 0, 1), committed("b", "x+2"), committed("c", "x=2", 2, 3)]),
    "time runs backwards": ("G1c-realtime", [committed("a", "x=1", 0, 1), committed("b", "x+1", 2, 3)]),
    "writes against the clock": (
        "G0-realtime",
        [committed("a", "x+1", 0, 1), committed("b", "x+2", 2, 3), committed("c", "x=21", 4, 5)],
    ),
    "applied twice": ("duplicate", [committed("a", "x+1"), committed("b", "x=11")]),
    "nobody wrote it": ("phantom", [committed("a", "x+1"), committed("b", "x=17")]),
    "two orders": (
        "incompatible-order",
        [committed("a", "x+1"), committed("b", "x+2"), committed("c", "x=12"), committed("d", "x=21")],
    ),
    "its own appends in another order": ("reordered", [committed("a", "x+1 x+2"), committed("b", "x=21")]),
    "half of its appends": ("reordered", [committed("a", "x+1 x+2"), committed("b", "x=2")]),
    "own append unseen": ("internal", [committed("a", "x+1 x="), committed("b", "x=1")]),
    "unrepeatable read": ("internal", [committed("a", "x= x=1"), committed("b", "x+1")]),
    "own append foreseen": ("internal", [committed("a", "x=1 x+1"), committed("b", "x=1")]),
    "half of an unanswered transaction": ("G-single", [unknown("a", "x+1 y+1"), committed("b", "x=1 y=")]),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_history_has_no_anomaly(name: str) -> None:
    verdict = check(SOUND[name])
    assert verdict.anomalies == ()
    assert explained(SOUND[name], strict=True)


@pytest.mark.parametrize("name", BAD)
def test_a_known_anomaly_is_found_by_its_name(name: str) -> None:
    kind, history = BAD[name]
    verdict = check(history)
    assert kind in verdict.kinds, verdict
    assert all(each.witness for each in verdict.anomalies)
    assert not explained(history, strict=True)


@pytest.mark.parametrize("name", ["stale read", "writes against the clock", "time runs backwards", "lost append"])
def test_serializable_but_not_strictly(name: str) -> None:
    _, history = BAD[name]
    assert explained(history, strict=False) == (not check(history, Order.SERIALIZABLE).anomalies)


@pytest.mark.parametrize("history", [[], [committed("a", "x+1")], [committed("a", "x= x+1 x=1"), committed("b", "y=")]])
def test_a_history_without_dependencies_proves_nothing(history: list[Transaction]) -> None:
    assert check(history).kinds == {NO_EVIDENCE}


def test_a_witness_names_the_cycle() -> None:
    (found,) = check(BAD["write skew"][1]).anomalies
    assert found.witness == "b -rw-> a (x: read as [], then 1); a -rw-> b (y: read as [], then 2)"


def test_a_value_that_was_appended_twice_is_refused() -> None:
    with pytest.raises(UserError, match="1 was appended to x twice, by a and by b"):
        check([committed("a", "x+1"), committed("b", "x+1")])


def test_real_time_is_complete() -> None:
    """The edges of real time and what follows from them by transitivity are exactly the pairs that do not overlap."""
    chance = random.Random(3)
    for _ in range(100):
        history = [_at(f"t{number}", chance) for number in range(8)]
        pairs = {(each.before, each.after) for each in real_time(history)}
        for one in history:
            right = {other.name for other in history if one.ended is not None and one.ended < other.began}
            assert _reached(one.name, pairs) == right


def _at(name: str, chance: random.Random) -> Transaction:
    began = chance.randrange(10)
    ended = None if chance.random() < 0.2 else began + chance.randrange(5)
    return Transaction(name, (), Outcome.COMMITTED, began, ended)


def test_components_equal_those_of_reachability() -> None:
    chance = random.Random(5)
    for _ in range(300):
        names = [f"n{number}" for number in range(chance.randint(1, 8))]
        pairs = {(chance.choice(names), chance.choice(names)) for _ in range(chance.randrange(14))}
        graph = {name: [Dependency(a, b, Kind.WW, "") for a, b in sorted(pairs) if a == name] for name in names}
        reach = {name: _reached(name, pairs) for name in names}
        right = {frozenset(o for o in names if o in reach[n] and n in reach[o]) | {n} for n in names}
        assert {frozenset(found) for found in components(graph)} == {each for each in right if len(each) > 1}


def _reached(start: str, pairs: set[tuple[str, str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        for before, after in pairs:
            if before == name and after not in found:
                found.add(after)
                waiting.append(after)
    return found


# The model: every serial order of everything that may have happened is tried.


def explained(history: Sequence[Transaction], strict: bool) -> bool:
    """Whether the transactions, in some order, give the reads that were recorded."""
    sure = [each for each in history if each.outcome is Outcome.COMMITTED]
    perhaps = [each for each in history if each.outcome is Outcome.UNKNOWN]
    chosen = chain.from_iterable(combinations(perhaps, size) for size in range(len(perhaps) + 1))
    return any(_explains(order, strict) for some in chosen for order in permutations([*sure, *some]))


def _explains(order: Sequence[Transaction], strict: bool) -> bool:
    lists: dict[str, tuple[int, ...]] = {}
    for place, transaction in enumerate(order):
        if strict and any(later.ended is not None and later.ended < transaction.began for later in order[place + 1 :]):
            return False
        for each in transaction.operations:
            now = lists.get(each.key, ())
            if isinstance(each, Append):
                lists[each.key] = (*now, each.value)
            elif transaction.outcome is Outcome.COMMITTED and now != each.values:
                return False
    return True


def random_history(chance: random.Random) -> list[Transaction]:
    """Returns a history that is right, or nearly so: run serially, and then reads are bent here and there."""
    lists: dict[str, tuple[int, ...]] = {}
    history: list[Transaction] = []
    bent = chance.choice((0.0, 0.2, 0.6))
    value = 0
    for number in range(chance.randint(2, 5)):
        outcome = chance.choices(list(Outcome), (8, 1, 1))[0]
        before = dict(lists)
        operations: list[Append | Read] = []
        for _ in range(chance.randint(1, 3)):
            key = chance.choice("xy")
            now = lists.get(key, ())
            if chance.random() < 0.5:
                value += 1
                operations.append(Append(key, value))
                lists[key] = (*now, value)
            else:
                seen = _bent(now, chance) if chance.random() < bent else now
                operations.append(Read(key, seen))
        if outcome is Outcome.ABORTED or (outcome is Outcome.UNKNOWN and chance.random() < 0.5):
            lists = before
        began = 2 * number - chance.randrange(4)
        ended = None if outcome is Outcome.UNKNOWN else began + chance.randint(1, 4)
        history.append(Transaction(f"t{number}", tuple(operations), outcome, began, ended))
    return chance.sample(history, len(history))


def _bent(values: tuple[int, ...], chance: random.Random) -> tuple[int, ...]:
    match chance.randrange(4):
        case 0:
            return values[: chance.randint(0, len(values))]
        case 1:
            return values[1:]
        case 2:
            return (*values, chance.randint(1, 9))
        case _:
            return tuple(chance.sample(values, len(values)))


@pytest.mark.parametrize("order", list(Order))
def test_the_verdict_is_that_of_trying_every_serial_order(order: Order) -> None:
    chance = random.Random(11)
    right = wrong = 0
    for _ in range(2_000):
        history = random_history(chance)
        verdict = check(history, order)
        sound = not verdict.kinds - {NO_EVIDENCE}
        assert sound == explained(history, order is Order.STRICT), (history, verdict)
        right, wrong = right + sound, wrong + (not sound)
    assert min(right, wrong) > 400  # Both verdicts were tested.
