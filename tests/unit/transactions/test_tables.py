"""Entities as rows: the types of fields in Spark's words, and values that equal those of the entities themselves."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pyarrow as pa
import pytest

from stretto import Entity
from stretto.errors import DamagedError
from stretto.transactions.kinds import described
from stretto.transactions.tables import decoded, described_fields, encoded, table_of


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


@dataclass
class Line:
    what: str
    amount: int = 1


class Point(NamedTuple):
    x: int
    y: float


class Shape(TypedDict):
    corners: list[Point]


class Packed(msgspec.Struct, array_like=True):
    a: int
    b: str


class Short(msgspec.Struct, omit_defaults=True):
    a: int = 0


@dataclass
class Tree:
    name: str
    below: list[Tree]


class Everything(Entity):
    flag: bool = False
    n: int = 0
    ratio: float = 0.0
    text: str = ""
    data: bytes = b""
    at: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    day: date = date(2026, 1, 1)
    clock: time = time(1, 2)
    took: timedelta = timedelta(seconds=1)
    exact: Decimal = Decimal("1.10")
    uuid_: UUID = UUID(int=7)
    colour: Colour = Colour.RED
    level: Level = Level.LOW
    word: Literal["a", "b"] = "a"
    bounded: Annotated[int, msgspec.Meta(ge=0)] = 0
    maybe: int | None = None
    either: int | str = 0
    anything: Any = None
    lines: list[Line] = []  # noqa: RUF012
    names: set[str] = set()  # noqa: RUF012
    pair: tuple[int, str] = (0, "")
    several: tuple[int, ...] = ()
    counts: dict[str, int] = {}  # noqa: RUF012
    by_number: dict[int, list[Line]] = {}  # noqa: RUF012
    shape: Shape | None = None
    packed: Packed | None = None
    short: Short = Short()
    tree: Tree | None = None


KIND = described(Everything)
LINE = pa.struct([("what", pa.string()), ("amount", pa.int64())])


def rows(**entities: dict[str, Any]) -> pa.Table:
    """Returns the rows of entities with these fields; the others have their defaults."""
    states = {}
    for key, fields in entities.items():
        entity = KIND.instance(key, None)
        for name, value in fields.items():
            setattr(entity, name, value)
        state = KIND.encode(entity, None)
        states[key] = KIND.fields(entity) if state is None else state
    return table_of(described_fields(KIND), states)


def test_fields_have_sparks_types() -> None:
    schema = rows().schema
    corner = pa.struct([("x", pa.int64()), ("y", pa.float64())])
    assert {field.name: field.type for field in schema} == {
        "key": pa.string(),
        "flag": pa.bool_(),
        "n": pa.int64(),
        "ratio": pa.float64(),
        "text": pa.string(),
        "data": pa.binary(),
        "at": pa.timestamp("us", "UTC"),
        "day": pa.date32(),
        "clock": pa.string(),
        "took": pa.string(),
        "exact": pa.string(),
        "uuid_": pa.string(),
        "colour": pa.string(),
        "level": pa.int64(),
        "word": pa.string(),
        "bounded": pa.int64(),
        "maybe": pa.int64(),
        "either": pa.string(),
        "anything": pa.string(),
        "lines": pa.list_(LINE),
        "names": pa.list_(pa.string()),
        "pair": pa.struct([("_1", pa.int64()), ("_2", pa.string())]),
        "several": pa.list_(pa.int64()),
        "counts": pa.map_(pa.string(), pa.int64()),
        "by_number": pa.map_(pa.int64(), pa.list_(LINE)),
        "shape": pa.struct([("corners", pa.list_(corner))]),
        "packed": pa.struct([("a", pa.int64()), ("b", pa.string())]),
        "short": pa.string(),
        "tree": pa.struct([("name", pa.string()), ("below", pa.list_(pa.string()))]),
    }


def test_values_are_those_of_the_entities() -> None:
    moment = datetime(2026, 2, 3, 4, 5, 6, 789_000, tzinfo=UTC)
    found = rows(
        a={
            "flag": True,
            "n": -(2**63),
            "ratio": 5,
            "text": "é",
            "data": b"\x00\xff",
            "at": moment,
            "day": date(1, 1, 1),
            "maybe": 0,
            "either": "x",
            "anything": {"x": [1, None]},
            "lines": [Line("tea", 2), Line("cup")],
            "names": {"one"},
            "pair": (1, "p"),
            "several": (1, 2),
            "counts": {"x": 1, "y": 2},
            "by_number": {7: [Line("z")], -1: []},
            "shape": {"corners": [Point(1, 2.5)]},
            "packed": Packed(1, "b"),
            "tree": Tree("t", [Tree("u", [])]),
        },
        b={"at": datetime(2026, 2, 3, 4, 5, 6), "either": 7, "anything": "text"},
    ).to_pylist()
    a, b = found
    assert a == {
        "key": "a",
        "flag": True,
        "n": -(2**63),
        "ratio": 5.0,
        "text": "é",
        "data": b"\x00\xff",
        "at": moment,
        "day": date(1, 1, 1),
        "clock": "01:02:00",
        "took": "PT1S",
        "exact": "1.10",
        "uuid_": str(UUID(int=7)),
        "colour": "red",
        "level": 1,
        "word": "a",
        "bounded": 0,
        "maybe": 0,
        "either": "x",
        "anything": '{"x":[1,null]}',
        "lines": [{"what": "tea", "amount": 2}, {"what": "cup", "amount": 1}],
        "names": ["one"],
        "pair": {"_1": 1, "_2": "p"},
        "several": [1, 2],
        "counts": [("x", 1), ("y", 2)],
        "by_number": [(7, [{"what": "z", "amount": 1}]), (-1, [])],
        "shape": {"corners": [{"x": 1, "y": 2.5}]},
        "packed": {"a": 1, "b": "b"},
        "short": "{}",
        "tree": {"name": "t", "below": ['{"name":"u","below":[]}']},
    }
    assert b["at"] == datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC), "a time without a zone is in UTC"
    assert (b["either"], b["anything"], b["shape"], b["lines"]) == ("7", "text", None, [])


def test_values_at_random_come_back() -> None:
    chance = random.Random(7)
    entities = {
        f"e{number}": {
            "n": chance.randint(-(2**63), 2**63 - 1),
            "ratio": chance.uniform(-1e300, 1e300),
            "counts": {str(chance.random()): chance.randint(-9, 9) for _ in range(chance.randint(0, 5))},
            "lines": [Line(str(chance.random()), chance.randint(0, 9)) for _ in range(chance.randint(0, 5))],
        }
        for number in range(200)
    }
    for row in rows(**entities).to_pylist():
        own = entities[row["key"]]
        assert (row["n"], row["ratio"]) == (own["n"], own["ratio"])
        assert dict(row["counts"]) == own["counts"]
        assert [Line(**line) for line in row["lines"]] == own["lines"]


def test_a_number_that_spark_has_not_makes_its_column_texts() -> None:
    found = rows(a={"n": 2**63, "maybe": 1}, b={"n": -1})
    assert found.schema.field("n").type == pa.string()
    assert found.column("n").to_pylist() == [str(2**63), "-1"]
    assert found.schema.field("maybe").type == pa.int64(), "the others stay"
    found = rows(a={"counts": {"x": 2**63}})
    assert found.column("counts").to_pylist() == ['{"x":9223372036854775808}']


def test_states_of_an_older_class_have_the_defaults_of_new_fields() -> None:
    state = msgspec.msgpack.encode({"n": 5, "removed": "x"})
    (row,) = table_of(described_fields(KIND), {"a": state}).to_pylist()
    assert (row["n"], row["text"], row["exact"], row["maybe"]) == (5, "", "1.10", None)
    assert "removed" not in row


def test_classes_come_back_from_bytes_or_are_refused() -> None:
    classes = {"Everything": described_fields(KIND)}
    assert decoded(encoded(classes)) == classes
    for wrong in (b"", b"\xff", encoded(classes)[:-1], msgspec.msgpack.encode({"Everything": [1, 2]})):
        with pytest.raises(DamagedError, match="not as they were written"):
            decoded(wrong)
