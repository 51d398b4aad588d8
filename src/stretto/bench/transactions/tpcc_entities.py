"""TPC-C's tables as entities: NewOrder is 20 to 50 functions (5 and 3 for each line), Payment 4 or 5 (styx.txt 9.2).

A row that no transaction has touched is as the loader would have left it, by its key: 100 warehouses have ten million
rows of stock, of which a run touches few. Initial orders are left out, since neither transaction reads them. Money is
in cents, rates are in hundredths of a percent.

Reads and writes are those of whole entities, so a warehouse and a district are two entities each: what NewOrder reads,
and the till that Payment writes. (The specification lets a table be partitioned vertically, clause 1.4.)
"""

from __future__ import annotations

from functools import cache
from zlib import crc32

import msgspec

from stretto.transactions.entity import Entity

DISTRICTS = 10
ITEMS = 100_000
CUSTOMERS = 3_000
DISTRICT_YTD = 3_000_000
"""What a district has earned before the run; a warehouse has that of its ten districts (clause 4.3.3.1)."""
_SYLLABLES = ("BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING")


class UnusedItem(Exception):
    """An item number that is not valid: the transaction is rolled back (clause 2.4.1.4)."""


class Line(msgspec.Struct, frozen=True, array_like=True):
    """What is ordered: the item, the warehouse that supplies it, how many."""

    item: int
    supply: int
    quantity: int


def populated(what: str, key: str, low: int, high: int) -> int:
    """Returns the initial value of a row, uniform by its key."""
    return low + crc32(f"{what} {key}".encode()) % (high - low + 1)


def last_name(number: int) -> str:
    """Returns the last name with this number, from 0 to 999 (clause 4.3.2.3)."""
    return "".join(_SYLLABLES[int(digit)] for digit in f"{number:03}")


@cache
def customers_named(name: str) -> list[int]:
    """Returns the customers of any district with a last name, in the order of first names. The first thousand have all
    names once, the others are spread by hash."""
    return _by_name()[name]


@cache
def _by_name() -> dict[str, list[int]]:
    found: dict[str, list[int]] = {last_name(number): [] for number in range(1_000)}
    for customer in range(1, CUSTOMERS + 1):
        number = customer - 1 if customer <= 1_000 else populated("name", str(customer), 0, 999)
        found[last_name(number)].append(customer)
    return {
        name: sorted(some, key=lambda one: populated("first name", str(one), 0, 1 << 30))
        for name, some in found.items()
    }


class Warehouse(Entity):
    tax: int = -1

    async def open(self, tax: int) -> None:
        self.tax = tax

    async def rate(self) -> int:
        return self.tax


class WarehouseTill(Entity):
    ytd: int = DISTRICTS * DISTRICT_YTD

    async def pay(self, amount: int) -> None:
        self.ytd += amount


class Item(Entity):
    async def price(self) -> int:
        if not 1 <= int(self.key) <= ITEMS:
            raise UnusedItem(self.key)
        return populated("price", self.key, 100, 10_000)


class Stock(Entity):
    quantity: int = -1
    ytd: int = 0
    orders: int = 0
    remote_orders: int = 0

    async def take(self, quantity: int, is_remote: bool) -> int:
        """Take from the stock, which is filled up when it is low (clause 2.4.2.2). Returns what is left."""
        if self.quantity < 0:
            self.quantity = populated("stock", self.key, 10, 100)
        self.quantity -= quantity if self.quantity >= quantity + 10 else quantity - 91
        self.ytd += quantity
        self.orders += 1
        self.remote_orders += is_remote
        return self.quantity


class Customer(Entity):
    balance: int = -1_000
    ytd: int = 1_000
    payments: int = 1
    data: str = ""

    async def discount(self) -> int:
        return populated("discount", self.key, 0, 5_000)

    async def pay(self, amount: int, at: str) -> int:
        """Book a payment. Of one customer in ten, whose credit is bad, it is also noted in the data."""
        self.balance -= amount
        self.ytd += amount
        self.payments += 1
        if populated("credit", self.key, 1, 10) == 1:
            self.data = f"{self.key} {at} {amount}|{self.data}"[:500]
        return self.balance


class CustomersByName(Entity):
    async def middle(self) -> int:
        """Returns the customer in the middle of those with the last name that ends the key (clause 2.5.2.2)."""
        named = customers_named(self.key.rpartition("/")[2])
        return named[(len(named) - 1) // 2]


class History(Entity):
    customer: str = ""
    at: str = ""
    amount: int = 0

    async def record(self, customer: str, at: str, amount: int) -> None:
        self.customer, self.at, self.amount = customer, at, amount


class Order(Entity):
    customer: int = 0
    lines: int = 0
    all_local: bool = True

    async def place(self, customer: int, lines: int, all_local: bool) -> None:
        self.customer, self.lines, self.all_local = customer, lines, all_local


class NewOrder(Entity):
    is_placed: bool = False

    async def place(self) -> None:
        self.is_placed = True


class OrderLine(Entity):
    item: int = 0
    supply: int = 0
    quantity: int = 0
    amount: int = 0

    async def place(self, item: int, supply: int, quantity: int, amount: int) -> None:
        self.item, self.supply, self.quantity, self.amount = item, supply, quantity, amount


class District(Entity):
    """The key is warehouse/district. NewOrder begins here."""

    tax: int = -1
    next_order: int = 1

    async def open(self, tax: int) -> None:
        self.tax = tax

    async def order(self, customer: int, lines: list[Line]) -> tuple[int, int]:
        """The NewOrder transaction (clause 2.4). Returns the number of the order, and its total."""
        home = int(self.key.partition("/")[0])
        number, self.next_order = self.next_order, self.next_order + 1
        order = f"{self.key}/{number}"
        tax = Warehouse(str(home)).rate()
        discount = Customer(f"{self.key}/{customer}").discount()
        prices = [Item(str(line.item)).price() for line in lines]
        for line in lines:
            _ = Stock(f"{line.supply}/{line.item}").take(line.quantity, line.supply != home)
        _ = Order(order).place(customer, len(lines), all(line.supply == home for line in lines))
        _ = NewOrder(order).place()
        total = 0
        for place, (line, price) in enumerate(zip(lines, prices, strict=True), 1):
            amount = line.quantity * await price
            total += amount
            _ = OrderLine(f"{order}/{place}").place(line.item, line.supply, line.quantity, amount)
        return number, total * (10_000 - await discount) * (10_000 + self.tax + await tax) // 10**8


class DistrictTill(Entity):
    """The key is warehouse/district. Payment begins here."""

    ytd: int = DISTRICT_YTD

    async def payment(self, of: str, customer: int | None, name: str | None, amount: int) -> int:
        """The Payment transaction (clause 2.5), of a customer of the district `of`, by number or by last name.
        Returns the customer's balance."""
        self.ytd += amount
        _ = WarehouseTill(self.key.partition("/")[0]).pay(amount)
        if customer is None:
            customer = await CustomersByName(f"{of}/{name}").middle()
        who = f"{of}/{customer}"
        _ = History(self.uuid().hex).record(who, self.key, amount)
        return await Customer(who).pay(amount, self.key)
