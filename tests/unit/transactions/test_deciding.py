"""The order of transactions, shares, conflicts, locks, the log and sessions: each alone, against a model."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.errors import DamagedError
from stretto.protocol.transactions import Conflicts, EntityName, Origin, Reply, Request
from stretto.transactions import log
from stretto.transactions.conflicts import Sets, decided, found
from stretto.transactions.locks import Locks
from stretto.transactions.log import Cut, Logged
from stretto.transactions.sequencing import Sequencer, worker_of
from stretto.transactions.sessions import Sessions, Standing
from stretto.transactions.shares import WHOLE, Shares

NAMES = [EntityName("Cell", str(number)) for number in range(4)]


# Sequencing.


def test_tids_are_i_plus_c_times_n() -> None:
    assert [Sequencer(2, 10, counter).assign() for counter in (0, 1, 5)] == [2, 12, 52]


def test_tids_differ_say_whose_they_are_and_are_levelled() -> None:
    chance = random.Random(1)
    workers = 3
    sequencers = [Sequencer(number, workers) for number in range(1, workers + 1)]
    seen: list[int] = []
    for _ in range(30):
        epoch = []
        for number, sequencer in enumerate(sequencers, 1):
            mine = [sequencer.assign() for _ in range(chance.choice((0, 1, 20)))]
            assert all(worker_of(tid, workers) == number for tid in mine)
            epoch += mine
        assert not set(epoch) & set(seen)
        assert not seen or not epoch or min(epoch) > max(seen)  # A later epoch comes after: none is put off for ever.
        seen += epoch
        for sequencer in sequencers:
            sequencer.level([other.counter for other in sequencers])


# Shares.


Tree = tuple[int, list["Tree"]]
"""A call: its worker, and what it calls."""
HOME = 1


def trees() -> st.SearchStrategy[Tree]:
    worker = st.integers(HOME, 3)
    return st.recursive(
        st.tuples(worker, st.just([])), lambda tree: st.tuples(worker, st.lists(tree, max_size=4)), max_leaves=30
    )


@given(trees(), st.data())
def test_shares_are_whole_exactly_at_the_end_as_fractions_of_calls_are(tree: Tree, data: st.DataObject) -> None:
    """The paper's scheme is the model: a fraction for each call, which add up to 1 at the root when all have ended.
    Calls run in any order; a handler makes some of its calls, and goes on later or ends."""
    shares = {worker: Shares() for worker in (1, 2, 3)}
    live = dict.fromkeys(shares, 0)
    ended = dict.fromkeys(shares, Fraction(0))
    under_way: list[tuple[list[int], Fraction]] = []
    running: list[tuple[Fraction, int, list[Tree]]] = [(Fraction(1), HOME, tree[1])]
    shares[HOME].add(WHOLE)
    live[HOME] = 1
    while running or under_way:
        assert not (shares[HOME].is_whole and not live[HOME])
        assert ended[HOME] < 1 or not running
        if under_way and (not running or data.draw(st.booleans())):
            given_back, fraction = under_way.pop(data.draw(st.integers(0, len(under_way) - 1)))
            ended[HOME] += fraction
            for share in given_back:
                shares[HOME].add(share)
            continue
        fraction, worker, children = running.pop(data.draw(st.integers(0, len(running) - 1)))
        count = data.draw(st.integers(min(1, len(children)), len(children)))
        goes_on = count < len(children)
        part = fraction / max(1, count + goes_on)
        for callee, its_calls in children[:count]:
            running.append((part, callee, its_calls))
            live[callee] += 1
            if callee != worker:
                shares[callee].add(shares[worker].halve())
        if goes_on:
            running.append((part, worker, children[count:]))
            continue
        ended[worker] += 0 if count else part
        live[worker] -= 1
        if worker != HOME and not live[worker]:
            under_way.append((shares[worker].take(), ended[worker]))
            ended[worker] = Fraction(0)
    assert shares[HOME].is_whole
    assert not live[HOME]
    assert ended[HOME] == 1


@given(st.lists(st.integers(1, 12), max_size=40))
def test_a_sum_of_shares_is_exact(shares: list[int]) -> None:
    found = Shares()
    right = Fraction(0)
    for share in shares:
        found.add(share)
        right += Fraction(1, 2**share)
        assert found.is_too_much == (right > 1)
        assert found.is_whole == (right == 1) or right > 1
    if shares:
        given_away = Fraction(1, 2 ** found.halve())
        assert sum((Fraction(1, 2**share) if share >= 0 else 2**-share for share in found.take()), given_away) == right


# Conflicts.


def random_sets(chance: random.Random) -> dict[int, Sets]:
    sets = {}
    for tid in range(1, chance.randint(2, 7)):
        reads = frozenset(chance.sample(NAMES, chance.randint(1, 3)))
        writes = frozenset(name for name in reads if chance.random() < 0.4)
        sets[tid] = Sets(reads, writes)
    return sets


def of_one_worker(sets: dict[int, Sets], worker: int) -> dict[int, Sets]:
    mine = {name for name in NAMES if int(name.key) % 2 == worker}
    return {tid: Sets(each.reads & mine, each.writes & mine) for tid, each in sets.items()}


@pytest.mark.parametrize("reordering", [True, False])
def test_what_commits_together_is_serial_in_the_order_of_its_places(reordering: bool) -> None:
    """All have read the state before the epoch. In the serial order, nobody may read what one before it wrote."""
    chance = random.Random(2)
    losers = reordered = 0
    for _ in range(2_000):
        sets = random_sets(chance)
        decision = decided([found(of_one_worker(sets, worker)) for worker in (0, 1)], reordering)
        committed = sorted(set(sets) - set(decision.losers), key=lambda tid: decision.place(1, tid))
        written_before: set[EntityName] = set()
        for tid in committed:
            assert not written_before & sets[tid].reads
            assert not written_before & sets[tid].writes
            written_before |= sets[tid].writes
        assert 1 in committed  # The lowest TID always commits.
        losers += len(decision.losers)
        reordered += len(decision.reordered)
    assert losers
    assert bool(reordered) == reordering


def test_reordering_lets_more_commit() -> None:
    chance = random.Random(3)
    with_it = without = 0
    for _ in range(500):
        conflicts = [found(random_sets(chance))]
        with_it += len(decided(conflicts, True).losers)
        without += len(decided(conflicts, False).losers)
    assert with_it < without


def test_conflicts_are_those_with_lower_tids() -> None:
    x, y = NAMES[:2]
    sets = {
        1: Sets(frozenset({x, y}), frozenset({x})),
        2: Sets(frozenset({x}), frozenset()),
        3: Sets(frozenset({y}), frozenset({y})),
        4: Sets(frozenset({x}), frozenset({x})),
    }
    assert found(sets) == Conflicts([4], [2, 4], [3, 4])
    assert decided([found(sets)], True).losers == [4]
    assert decided([found(sets)], False).losers == [2, 4]


# Locks.


def test_locks_let_run_what_does_not_conflict_and_nothing_else() -> None:
    chance = random.Random(4)
    together = 0
    for _ in range(500):
        sets = random_sets(chance)
        locks = Locks()
        for tid in sorted(sets):
            locks.add(tid, sets[tid])
        running = set(locks.begin())
        over: set[int] = set()
        while running:
            waits = {tid: _conflicts(sets, tid, set(sets) - over) for tid in set(sets) - over}
            assert running == {tid for tid, others in waits.items() if not others}
            together += len(running) > 1
            tid = chance.choice(sorted(running))
            running.discard(tid)
            over.add(tid)
            running |= set(locks.release(tid))
        assert over == set(sets)
    assert together


def test_late_locks_are_those_that_nobody_has_and_are_held_to_the_end() -> None:
    """Transactions that run touch random entities. Nobody ever uses what another one writes, or writes what it uses."""
    chance = random.Random(5)
    late = refused = upgraded = 0
    for _ in range(500):
        sets = random_sets(chance)
        locks = Locks()
        for tid in sorted(sets):
            locks.add(tid, sets[tid])
        running = set(locks.begin())
        uses = {tid: {*sets[tid].reads} for tid in sets}
        writes = {tid: {*sets[tid].writes} for tid in sets}
        there = set(sets)
        while running:
            tid, name = chance.choice(sorted(running)), chance.choice(NAMES)
            if chance.random() < 0.3:
                there.discard(tid)
                running = running - {tid} | set(locks.release(tid))
                continue
            may_use, mine = locks.may_use(tid, name), name in uses[tid]
            assert may_use or not mine
            assert may_use or any(name in uses[other] for other in there - {tid})
            late, refused = late + (may_use and not mine), refused + (not may_use)
            if may_use:
                may_write = locks.may_write(tid, name)
                assert may_write or (mine and any(name in uses[other] for other in there - {tid}))
                upgraded += may_write and mine and name not in writes[tid]
                uses[tid].add(name)
                writes[tid] |= {name} if may_write else set()
            for one in running:
                assert not any(writes[one] & uses[other] for other in running - {one})
        assert not there
    assert min(late, refused, upgraded) > 50


def _conflicts(sets: dict[int, Sets], tid: int, others: set[int]) -> set[int]:
    mine = sets[tid]
    return {
        other
        for other in others
        if other < tid and (sets[other].writes & (mine.reads | mine.writes) or mine.writes & sets[other].reads)
    }


# The log.


def call(number: int) -> Logged:
    return Logged(Origin("c", number, -1), Request(NAMES[number % 4], "act", bytes(number)), number)


ENTRIES = [call(0), call(1), Cut(1, 2), call(2), Cut(2, 3), call(3)]


def test_a_log_comes_back() -> None:
    data = b"".join(map(log.encoded, ENTRIES))
    content = log.read(data, 100)
    assert content.end == 100 + len(data)
    assert [each for _, each in content.calls] == [call(number) for number in range(4)]
    assert content.cuts == {1: Cut(1, 2), 2: Cut(2, 3)}
    position, first = content.calls[2]
    assert log.read(data[position - 100 :], position).calls[0] == (position, first)


def test_a_torn_tail_is_left_out_wherever_it_is_torn() -> None:
    ends = [0]
    for entry in ENTRIES:
        ends.append(ends[-1] + len(log.encoded(entry)))
    data = b"".join(map(log.encoded, ENTRIES))
    for length in range(len(data) + 1):
        assert log.read(data[:length], 0).end == max(end for end in ends if end <= length)


@given(st.integers(0, len(b"".join(map(log.encoded, ENTRIES))) * 8 - 1))
def test_a_wrong_bit_ends_the_log(bit: int) -> None:
    data = bytearray(b"".join(map(log.encoded, ENTRIES)))
    data[bit // 8] ^= 1 << bit % 8
    assert log.read(bytes(data), 0).end <= bit // 8


def test_an_entry_with_a_right_checksum_that_is_no_entry_is_damage() -> None:
    body = b"\x01"
    with pytest.raises(DamagedError, match="at 10"):
        log.read(log._HEADER.pack(len(body), log.crc32(body)) + body, 10)


# Sessions.


def test_a_call_is_new_once() -> None:
    sessions = Sessions()
    origin = Origin("c", 4, 2)
    assert sessions.standing(origin) is Standing.NEW
    sessions.logged(origin)
    assert sessions.standing(origin) is Standing.PENDING
    reply = Reply("c", 4, b"\x01", None)
    sessions.replied(reply)
    assert sessions.standing(origin) is Standing.REPLIED
    assert sessions.reply(origin) == reply
    again = Sessions(sessions.kept())
    assert again.standing(origin) is Standing.REPLIED
    again.settle(Origin("c", 5, 4))
    assert again.standing(origin) is Standing.SETTLED
    assert Sessions(again.kept()).standing(origin) is Standing.SETTLED
    assert Sessions(again.kept()).kept() == again.kept()


def test_a_reply_that_the_client_has_is_not_kept() -> None:
    sessions = Sessions()
    sessions.settle(Origin("c", 9, 4))
    sessions.replied(Reply("c", 4, b"\x01", None))
    assert sessions.kept()[0].replies == []
