"""YCSB-T as in Styx's evaluation (styx.txt 9.2): transfers between 10,000 accounts, two reads and two writes each.

The debtor is uniform, the creditor uniform, by Zipf, or one hot account. Balances are small against the amounts, so
that a debtor often has too little and the transfer is aborted. Keys are ranked by a random permutation, so that a
frequent one may be on any worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar

import numpy as np

from stretto.bench.draws import Int64s, below, hashed, stream
from stretto.bench.elastic.zipf import permutation, places, zipf_weights
from stretto.bench.transactions.replay import Aborted, differences
from stretto.bench.transactions.service import Done, Fields
from stretto.transactions.entity import Entity, reads

BALANCE = 10
AMOUNT_MAX = 5
BLOCK = 1_024
"""So many calls are drawn at once."""


class NotEnough(Exception):
    """The debtor has less than the amount."""


class Account(Entity):
    """A bank account."""

    balance: int = BALANCE

    async def deposit(self, amount: int) -> int:
        self.balance += amount
        return self.balance

    async def transfer(self, to: str, amount: int) -> int:
        """Pay an amount to another account. Returns the new balance."""
        if self.balance < amount:
            raise NotEnough(f"{self.key} has {self.balance} and owes {amount}")
        self.balance -= amount
        _ = Account(to).deposit(amount)
        return self.balance

    @reads
    async def look(self) -> int:
        return self.balance


@dataclass(frozen=True)
class YcsbT:
    """The workload: `skew` is Zipf's coefficient of the creditors (0: uniform); `hot`: all pay to one account."""

    accounts: int = 10_000
    skew: float = 0.0
    hot: bool = False

    name: ClassVar[str] = "ycsb-t"
    entities: ClassVar[tuple[type[Entity], ...]] = (Account,)

    def load(self) -> Iterator[Any]:
        """Every account exists with its balance: nothing is to be loaded."""
        return iter(())

    def calls(self, seed: int) -> Iterator[Any]:
        """Returns transfers without end, the same for equal seeds."""
        order = permutation(seed, 0, self.accounts)
        for block in count():
            numbers = np.arange(block * BLOCK, (block + 1) * BLOCK, dtype=np.int64)
            debtors = below(hashed(stream(seed, "debtor"), numbers), self.accounts)
            creditors = self._creditors(seed, numbers, order)
            amounts = 1 + below(hashed(stream(seed, "amount"), numbers), AMOUNT_MAX)
            for debtor, creditor, amount in zip(debtors.tolist(), creditors.tolist(), amounts.tolist(), strict=True):
                # Nobody pays to itself: the next one gets it.
                to = (creditor + 1) % self.accounts if creditor == debtor and not self.hot else creditor
                yield Account(f"a{debtor}").transfer(f"a{to}", amount)

    def _creditors(self, seed: int, numbers: Int64s, order: Int64s) -> Int64s:
        if self.hot:
            return np.zeros_like(numbers)
        found: Int64s = order[places(hashed(stream(seed, "creditor"), numbers), zipf_weights(self.accounts, self.skew))]
        return found

    def verify(self, done: Sequence[Done], rows: Mapping[str, Mapping[str, Fields]]) -> Iterator[str]:
        """Returns what is wrong: money that came or went, a reply or a balance that a sequential replay has not."""
        balances = [fields["balance"] for fields in rows["Account"].values()]
        excess = sum(balances) - BALANCE * len(balances)
        if excess:
            yield f"money is not conserved: the accounts have {excess:+} in sum"
        yield from differences(self.entities, done, Replay(), rows)


class Replay:
    """The accounts after one transfer after another."""

    def __init__(self) -> None:
        self._balances: dict[str, int] = {}

    def answer(self, done: Done) -> int:
        key, arguments = done.made.key, done.arguments
        to, amount = str(arguments["to"]), int(arguments["amount"])
        left = self._balances.setdefault(key, BALANCE) - amount
        if left < 0:
            raise Aborted("NotEnough")
        self._balances[key] = left
        self._balances[to] = self._balances.get(to, BALANCE) + amount
        return left

    def rows(self) -> dict[str, dict[str, Fields]]:
        return {"Account": {key: {"balance": balance} for key, balance in self._balances.items()}}
