"""TPC-C's NewOrder and Payment (styx.txt 9.2): calls by the specification's random numbers, and what must hold after.

The two are mixed as in the whole benchmark, 45 to 43. One NewOrder in a hundred has an item that does not exist and is
rolled back; one line in a hundred is supplied by another warehouse; 15 percent of payments are of another warehouse's
customer, 60 percent by last name.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from stretto.bench.transactions.service import Done
from stretto.bench.transactions.tpcc_entities import (
    CUSTOMERS,
    DISTRICT_YTD,
    DISTRICTS,
    ITEMS,
    Customer,
    CustomersByName,
    District,
    DistrictTill,
    History,
    Item,
    Line,
    NewOrder,
    Order,
    OrderLine,
    Stock,
    Warehouse,
    WarehouseTill,
    last_name,
    populated,
)
from stretto.bench.transactions.workload import Rows
from stretto.transactions.entity import Entity

NEW_ORDERS, PAYMENTS = 45, 43
ROLLED_BACK_PERCENT = 1
REMOTE_LINE_PERCENT = 1
REMOTE_PAYMENT_PERCENT = 15
BY_NAME_PERCENT = 60


@dataclass(frozen=True)
class Tpcc:
    """The workload, by its number of warehouses."""

    warehouses: int = 1

    name: ClassVar[str] = "tpcc"
    entities: ClassVar[tuple[type[Entity], ...]] = (
        Warehouse,
        WarehouseTill,
        District,
        DistrictTill,
        Customer,
        CustomersByName,
        Item,
        Stock,
        Order,
        NewOrder,
        OrderLine,
        History,
    )

    def load(self) -> Iterator[Any]:
        for warehouse in range(1, self.warehouses + 1):
            yield Warehouse(str(warehouse)).open(populated("tax", str(warehouse), 0, 2_000))
            for district in range(1, DISTRICTS + 1):
                key = f"{warehouse}/{district}"
                yield District(key).open(populated("tax", key, 0, 2_000))

    def calls(self, seed: int) -> Iterator[Any]:
        terminals = Terminals(random.Random(seed), self.warehouses)
        while True:
            yield terminals.new_order() if terminals.below(NEW_ORDERS + PAYMENTS) < NEW_ORDERS else terminals.payment()

    def verify(self, done: Sequence[Done], rows: Rows) -> Iterator[str]:
        """Returns what is wrong: the consistency conditions 1 to 4 (clause 3.3.2), and what replies have promised."""
        yield from _condition_1(rows)
        yield from _conditions_2_and_3(rows)
        yield from _condition_4(rows)
        yield from _kept_orders(done, rows)
        yield from _kept_payments(done, rows)


class Terminals:
    """Draws calls as the specification says."""

    def __init__(self, chance: random.Random, warehouses: int) -> None:
        self._chance = chance
        self._warehouses = warehouses
        self._constants = {bits: chance.randint(0, bits) for bits in (255, 1_023, 8_191)}

    def below(self, bound: int) -> int:
        return self._chance.randrange(bound)

    def nurand(self, bits: int, low: int, high: int) -> int:
        """Returns a number that is not uniform (clause 2.1.6)."""
        mixed = self._chance.randint(0, bits) | self._chance.randint(low, high)
        return (mixed + self._constants[bits]) % (high - low + 1) + low

    def new_order(self) -> Any:
        warehouse = self._chance.randint(1, self._warehouses)
        lines = [
            Line(self.nurand(8_191, 1, ITEMS), self._supply(warehouse), self._chance.randint(1, 10))
            for _ in range(self._chance.randint(5, 15))
        ]
        if self.below(100) < ROLLED_BACK_PERCENT:
            lines[-1] = Line(ITEMS + 1, warehouse, 1)
        district: Any = District(f"{warehouse}/{self._chance.randint(1, DISTRICTS)}")
        return district.order(self.nurand(1_023, 1, CUSTOMERS), lines)

    def payment(self) -> Any:
        warehouse = self._chance.randint(1, self._warehouses)
        here = f"{warehouse}/{self._chance.randint(1, DISTRICTS)}"
        of = here
        if self.below(100) < REMOTE_PAYMENT_PERCENT and self._warehouses > 1:
            of = f"{self._other(warehouse)}/{self._chance.randint(1, DISTRICTS)}"
        amount = self._chance.randint(100, 500_000)
        till: Any = DistrictTill(here)
        if self.below(100) < BY_NAME_PERCENT:
            return till.payment(of, None, last_name(self.nurand(255, 0, 999)), amount)
        return till.payment(of, self.nurand(1_023, 1, CUSTOMERS), None, amount)

    def _supply(self, home: int) -> int:
        is_remote = self._warehouses > 1 and self.below(100) < REMOTE_LINE_PERCENT
        return self._other(home) if is_remote else home

    def _other(self, warehouse: int) -> int:
        other = self._chance.randint(1, self._warehouses - 1)
        return other + (other >= warehouse)


# What must hold.


def _condition_1(rows: Rows) -> Iterator[str]:
    """W_YTD = sum(D_YTD)."""
    earned: Counter[str] = Counter()
    for key, till in rows["DistrictTill"].items():
        earned[key.partition("/")[0]] += till["ytd"] - DISTRICT_YTD
    tills = {key: till["ytd"] - DISTRICTS * DISTRICT_YTD for key, till in rows["WarehouseTill"].items()}
    for key in sorted(earned.keys() | tills.keys()):
        if tills.get(key, 0) != earned[key]:
            yield f"condition 1: warehouse {key} has earned {tills.get(key, 0)}, and its districts {earned[key]}"


def _conditions_2_and_3(rows: Rows) -> Iterator[str]:
    """D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID), and rows of NEW-ORDER have no gap."""
    orders, new_orders = _numbers(rows, "Order"), _numbers(rows, "NewOrder")
    for key, district in sorted(rows["District"].items()):
        mine, new = orders[key], new_orders[key]
        last = district["next_order"] - 1
        if not last == max(mine, default=0) == max(new, default=0):
            found = f"{max(mine, default=0)} and {max(new, default=0)}"
            yield f"condition 2: the last order of district {key} should be {last}, and the rows have {found}"
        if new and max(new) - min(new) + 1 != len(new):
            yield f"condition 3: district {key} has {len(new)} new orders, from {min(new)} to {max(new)}"


def _condition_4(rows: Rows) -> Iterator[str]:
    """sum(O_OL_CNT) = rows of ORDER-LINE."""
    counts: Counter[str] = Counter()
    for key, order in rows["Order"].items():
        counts[_district(key)] += order["lines"]
    lines = Counter(_district(key) for key in rows["OrderLine"])
    for key in sorted(counts.keys() | lines.keys()):
        if counts[key] != lines[key]:
            yield f"condition 4: the orders of district {key} have {counts[key]} lines, and there are {lines[key]}"


def _kept_orders(done: Sequence[Done], rows: Rows) -> Iterator[str]:
    """Every order that was answered is there with its lines, once, and no other one is."""
    promised: Counter[str] = Counter()
    for each in done:
        if each.made.method == "order" and each.reply.failure is None:
            order = f"{each.made.key}/{each.value[0]}"
            promised[order] += 1
            row = rows["Order"].get(order)
            if row is None or row["lines"] != len(each.arguments["lines"]):
                yield f"order {order} was answered, and is {row} in the end"
    yield from (f"order {order} was given to {count} calls" for order, count in promised.items() if count > 1)
    yield from (f"order {order} was answered to nobody" for order in sorted(rows["Order"].keys() - promised.keys()))


def _kept_payments(done: Sequence[Done], rows: Rows) -> Iterator[str]:
    """Districts and customers have what was paid, and there is a row for each payment."""
    earned: Counter[str] = Counter()
    paid: Counter[str] = Counter()
    count = 0
    for each in done:
        if each.made.method == "payment" and each.reply.failure is None:
            earned[each.made.key] += each.arguments["amount"]
            paid[each.arguments["of"]] += each.arguments["amount"]
            count += 1
    tills = {key: till["ytd"] - DISTRICT_YTD for key, till in rows["DistrictTill"].items()}
    for key in sorted(earned.keys() | tills.keys()):
        if tills.get(key, 0) != earned[key]:
            yield f"district {key} was paid {earned[key]}, and has earned {tills.get(key, 0)}"
    booked: Counter[str] = Counter()
    for key, customer in rows["Customer"].items():
        booked[_district(key)] -= customer["balance"] + 1_000
    for key in sorted(paid.keys() | booked.keys()):
        if paid[key] != booked[key]:
            yield f"customers of district {key} have paid {paid[key]}, and {booked[key]} is booked"
    if len(rows["History"]) != count:
        yield f"{count} payments were answered, and there are {len(rows['History'])} rows of them"


def _numbers(rows: Rows, kind: str) -> defaultdict[str, list[int]]:
    """Returns the numbers of the orders of each district."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for key in rows[kind]:
        found[_district(key)].append(int(key.rpartition("/")[2]))
    return found


def _district(key: str) -> str:
    """Returns the district of a key that begins with it."""
    warehouse, district, *_ = key.split("/")
    return f"{warehouse}/{district}"
