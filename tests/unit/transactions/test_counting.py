"""What places count of transactions is what callers got, also when workers are lost and all of it is replayed."""

from __future__ import annotations

from collections import Counter

from tests.unit.transactions.test_bank import PEOPLE, Account, Bank

from stretto.protocol.transactions import Failure, Origin, Place, Request, TransactionTotals
from stretto.transactions.counting import OTHER, REASONS_MAX, Counts
from stretto.transactions.epoch import Sequenced, Settled
from stretto.transactions.log import Logged


def counted(bank: Bank) -> list[TransactionTotals]:
    return [host.machine.totals() for host in bank.cluster.hosts.values() if host.machine is not None]


def settled(kind: str | None = None, at_us: int = 0) -> Settled:
    call = Logged(Origin("c", 1, 0), Request(("Account", "ann"), "look", b""), at_us)  # type: ignore[arg-type]
    failure = None if kind is None else Failure(kind, "no")
    return Settled(Sequenced(1, 1, call), None, failure, Place(1, 2, 1))


def test_transactions_are_counted_as_callers_see_them_end() -> None:
    bank = Bank()
    replies = bank.together(*(Account(one).transfer(other, 3) for one in PEOPLE for other in PEOPLE if one != other))
    replies.append(bank.call(Account("ann").pay_and_fail("bob")))
    refusals = Counter(reply[0] for reply in replies if isinstance(reply, tuple))
    assert refusals["NotEnough"] > 1
    found = counted(bank)
    aborted: Counter[str] = Counter()
    for each in found:
        aborted.update(each.aborted)
    assert aborted == refusals
    assert sum(each.committed for each in found) == len(replies) - refusals.total()
    assert sum(each.entities for each in found) == len(bank.cluster.state())
    assert sum(sum(each.latency.bins.values()) for each in found if each.latency is not None) == len(replies)


def test_transactions_that_meet_are_conflicts_and_those_that_do_not_are_none() -> None:
    apart, together = Bank(), Bank()
    apart.together(*(Account(each).deposit(1) for each in PEOPLE))
    together.together(*(Account("ann").deposit(1) for _ in PEOPLE))
    assert [each.conflicts for each in counted(apart)] == [0, 0, 0]
    assert sum(each.conflicts for each in counted(together)) > 0


def test_a_replay_counts_nothing_again() -> None:
    bank = Bank()
    bank.together(*(Account(each).deposit(1) for each in PEOPLE * 4))
    looks = bank.together(*(Account(each).look() for each in PEOPLE))
    before = counted(bank)
    bank.cluster.crash("w2")
    assert bank.together(*(Account(each).look() for each in PEOPLE)) == looks, "it was replayed"
    after = counted(bank)
    assert [each.committed for each in after] == [before[0].committed, 0, before[2].committed]
    bank.call(Account("ann").deposit(1))
    assert sum(each.committed for each in counted(bank)) == sum(each.committed for each in after) + 1


def test_looks_and_epochs_are_counted() -> None:
    bank = Bank()
    bank.together(*(Account(each).look() for each in PEOPLE))
    assert sum(each.looks for each in counted(bank)) == len(PEOPLE)
    assert sum(each.committed for each in counted(bank)) == 0
    bank.call(Account("ann").deposit(1))
    assert min(each.epochs for each in counted(bank)) >= 1


def test_reasons_are_bounded() -> None:
    counts = Counts()
    for number in range(2 * REASONS_MAX):
        counts.settled(settled(f"Error{number}"), 0)
    totals = counts.totals(0, 0, 0)
    assert len(totals.aborted) == REASONS_MAX + 1
    assert totals.aborted[OTHER] == REASONS_MAX


def test_figures_go_on_at_another_worker() -> None:
    counts = Counts()
    counts.settled(settled("Poor", at_us=1_000), 5_000)
    counts.epoch_over(3)
    totals = counts.totals(7, 0, 0)
    there = Counts.continuing(totals)
    assert there.totals(7, 0, 0) == totals
    there.settled(settled(), 2_000)
    assert (there.totals(7, 0, 0).committed, counts.totals(7, 0, 0).committed) == (1, 0)


def test_a_latency_is_from_the_arrival_of_the_call() -> None:
    counts = Counts()
    counts.settled(settled(at_us=1_000_000), 1_250_000)
    latency = counts.totals(0, 0, 0).latency
    assert latency is not None
    assert latency.max_ms == 250
