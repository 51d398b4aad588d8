"""Travel reservation, after Deathstar (styx.txt 9.2, table 2): search, recommend and login, and few that reserve.

The mix is that of Deathstar's hotel reservation: 60 percent search, 39 recommend, 0.5 log in, 0.5 reserve. A hotel has
few rooms and a flight few seats, so that reservations are aborted, also after the other half of one was made.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar
from zlib import crc32

from stretto.bench.transactions.replay import Aborted, differences
from stretto.bench.transactions.service import Done, Fields
from stretto.bench.transactions.workload import Rows
from stretto.transactions.entity import Entity, reads

NEAR = 5
"""So many hotels are in one area."""
FOUND = 3
"""So many are shown."""
FRONTENDS = 16


class Full(Exception):
    """No room or no seat is left."""


class Area(Entity):
    """Hotels that are near to each other, with their distances."""

    hotels: dict[str, int] = {}  # noqa: RUF012

    async def open(self, hotels: dict[str, int]) -> None:
        self.hotels = hotels

    async def nearby(self) -> dict[str, int]:
        return self.hotels


class Rates(Entity):
    """What the hotels of an area cost, and how guests rate them."""

    prices: dict[str, int] = {}  # noqa: RUF012
    ratings: dict[str, int] = {}  # noqa: RUF012

    async def open(self, prices: dict[str, int], ratings: dict[str, int]) -> None:
        self.prices, self.ratings = prices, ratings

    async def cheapest(self, hotels: list[str]) -> list[str]:
        return sorted(hotels, key=lambda hotel: (self.prices[hotel], hotel))[:FOUND]

    async def best(self, hotels: dict[str, int], by: str) -> str:
        order = {"price": self.prices, "distance": hotels, "rating": {key: -self.ratings[key] for key in hotels}}[by]
        return min(hotels, key=lambda hotel: (order[hotel], hotel))


class Traveller(Entity):
    password: str = ""

    async def register(self, password: str) -> None:
        self.password = password

    @reads
    async def login(self, password: str) -> bool:
        return self.password == password


class Hotel(Entity):
    rooms: int = 0

    async def open(self, rooms: int) -> None:
        self.rooms = rooms

    async def reserve(self) -> None:
        if not self.rooms:
            raise Full(self.key)
        self.rooms -= 1


class Flight(Entity):
    seats: int = 0

    async def open(self, seats: int) -> None:
        self.seats = seats

    async def reserve(self) -> None:
        if not self.seats:
            raise Full(self.key)
        self.seats -= 1


class Booking(Entity):
    traveller: str = ""
    hotel: str = ""
    flight: str = ""

    async def reserve(self, traveller: str, hotel: str, flight: str) -> str:
        """Book a room and a seat, or neither."""
        _ = Hotel(hotel).reserve()
        _ = Flight(flight).reserve()
        self.traveller, self.hotel, self.flight = traveller, hotel, flight
        return self.key


class Website(Entity):
    async def search(self, area: str) -> list[str]:
        """Returns the cheapest hotels of an area."""
        hotels = await Area(area).nearby()
        return await Rates(area).cheapest(sorted(hotels))

    async def recommend(self, area: str, by: str) -> str:
        """Returns the best hotel of an area, by price, distance or rating."""
        hotels = await Area(area).nearby()
        return await Rates(area).best(hotels, by)


def _of(hotel: str, what: str) -> int:
    return crc32(f"{what} of {hotel}".encode()) % 1_000


@dataclass(frozen=True)
class Travel:
    """The workload: 2,000 keys."""

    hotels: int = 100
    flights: int = 100
    travellers: int = 1_760
    rooms: int = 2

    name: ClassVar[str] = "travel"
    entities: ClassVar[tuple[type[Entity], ...]] = (Website, Area, Rates, Traveller, Hotel, Flight, Booking)

    def load(self) -> Iterator[Any]:
        names = [f"hotel{number}" for number in range(self.hotels)]
        for area in range(0, self.hotels, NEAR):
            near = names[area : area + NEAR]
            ratings = {each: _of(each, "rating") for each in near}
            yield Area(str(area // NEAR)).open({each: _of(each, "distance") for each in near})
            yield Rates(str(area // NEAR)).open({each: _of(each, "price") for each in near}, ratings)
        for name in names:
            yield Hotel(name).open(self.rooms)
        for number in range(self.flights):
            yield Flight(f"flight{number}").open(self.rooms)
        for number in range(self.travellers):
            yield Traveller(f"user{number}").register(f"password{number}")

    def calls(self, seed: int) -> Iterator[Any]:
        chance = random.Random(seed)
        bookings = 0
        while True:
            website: Any = Website(str(chance.randrange(FRONTENDS)))
            area = str(chance.randrange(-(-self.hotels // NEAR)))
            number = chance.randrange(self.travellers)
            kind = chance.randrange(1_000)
            if kind < 600:
                yield website.search(area)
            elif kind < 990:
                yield website.recommend(area, chance.choice(("price", "distance", "rating")))
            elif kind < 995:
                yield Traveller(f"user{number}").login(f"password{number if chance.random() < 0.9 else 0}")
            else:
                bookings += 1
                hotel, flight = chance.randrange(self.hotels), chance.randrange(self.flights)
                booking: Any = Booking(f"booking{seed}-{bookings}")
                yield booking.reserve(f"user{number}", f"hotel{hotel}", f"flight{flight}")

    def verify(self, done: Sequence[Done], rows: Rows) -> Iterator[str]:
        """Returns what a sequential model has otherwise."""
        yield from differences(self.entities, done, Replay(), rows)


@dataclass
class Replay:
    """Rooms, seats and bookings, one reservation after another; what was loaded does not change."""

    areas: dict[str, dict[str, int]] = field(default_factory=dict)
    rates: dict[str, tuple[dict[str, int], dict[str, int]]] = field(default_factory=dict)
    passwords: dict[str, str] = field(default_factory=dict)
    left: dict[tuple[str, str], int] = field(default_factory=dict)
    """Rooms and seats."""
    bookings: dict[str, Fields] = field(default_factory=dict)

    def answer(self, done: Done) -> Any:
        made, arguments = done.made, done.arguments
        match made.kind, made.method:
            case "Area", _:
                self.areas[made.key] = arguments["hotels"]
            case "Rates", _:
                self.rates[made.key] = arguments["prices"], arguments["ratings"]
            case "Hotel" | "Flight", _:
                (self.left[made.kind, made.key],) = arguments.values()
            case _, "register":
                self.passwords[made.key] = arguments["password"]
            case _, "login":
                return self.passwords[made.key] == arguments["password"]
            case _, "search":
                prices, _ = self.rates[arguments["area"]]
                return [name for _, name in sorted((prices[each], each) for each in prices)][:FOUND]
            case _, "recommend":
                return self._recommended(arguments["area"], arguments["by"])
            case _, "reserve":
                return self._reserved(made.key, arguments)
        return None

    def _recommended(self, area: str, by: str) -> str:
        prices, ratings = self.rates[area]
        ranks = {"price": prices, "distance": self.areas[area], "rating": {each: -ratings[each] for each in ratings}}
        return min((rank, name) for name, rank in ranks[by].items())[1]

    def _reserved(self, booking: str, wanted: dict[str, str]) -> str:
        halves = ("Hotel", wanted["hotel"]), ("Flight", wanted["flight"])
        if not all(self.left[half] for half in halves):
            raise Aborted("Full")
        for half in halves:
            self.left[half] -= 1
        self.bookings[booking] = dict(wanted)
        return booking

    def rows(self) -> dict[str, dict[str, Fields]]:
        return {
            "Area": {key: {"hotels": hotels} for key, hotels in self.areas.items()},
            "Rates": {key: {"prices": prices, "ratings": rating} for key, (prices, rating) in self.rates.items()},
            "Traveller": {key: {"password": password} for key, password in self.passwords.items()},
            "Hotel": {key: {"rooms": left} for (kind, key), left in self.left.items() if kind == "Hotel"},
            "Flight": {key: {"seats": left} for (kind, key), left in self.left.items() if kind == "Flight"},
            "Booking": self.bookings,
        }
