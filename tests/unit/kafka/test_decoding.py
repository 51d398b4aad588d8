"""Values to rows: batches are decoded at once, and of those that are wrong each is named, the others kept."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from stretto.errors import SourceError
from stretto.runtime.connectors.kafka.decoding import ArrowDecoder, JsonDecoder, RawDecoder
from stretto.runtime.connectors.kafka.rows import Columns, Records, RowMaker
from stretto.runtime.connectors.kafka.source import decoder_of

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])


def stream(*rows: dict[str, Any]) -> bytes:
    out = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_pylist(list(rows), schema=SCHEMA)
    with pa.ipc.new_stream(out, SCHEMA) as writer:
        writer.write_batch(batch)
    return out.getvalue().to_pybytes()


def test_json_is_what_pythons_parser_reads() -> None:
    chance = random.Random(1)
    objects = [{"n": chance.randrange(-9, 9), "s": chance.choice(["", "a\nb", "é", '"', "{}"])} for _ in range(300)]
    values = [json.dumps(each, indent=chance.choice([None, 2]), ensure_ascii=False).encode() for each in objects]
    decoded = JsonDecoder(SCHEMA).decode(values)
    assert decoded.rows.to_pylist() == objects
    assert decoded.faults == {}


def test_each_value_that_is_wrong_is_named_and_the_others_are_kept() -> None:
    wrong = [
        b"",
        b" ",
        b"[1]",
        b'{"n":1}{"n":2}',
        b'{"n":',
        b"1}",
        b'{"n":"x"}',
        b"\xff",
        b'{"n":1} x',
        b'{"s":"\xff"}',
    ]
    chance = random.Random(2)
    values = wrong + [json.dumps({"n": number, "s": "x"}).encode() for number in range(10)]
    chance.shuffle(values)
    decoded = JsonDecoder(SCHEMA).decode(values)
    assert sorted(decoded.faults) == [place for place, value in enumerate(values) if value in wrong]
    for place, row in enumerate(decoded.rows.to_pylist()):
        expected = {"n": None, "s": None} if place in decoded.faults else json.loads(values[place])
        assert row == expected


def test_the_fault_says_what_is_wrong() -> None:
    faults = JsonDecoder(SCHEMA).decode([b'{"n":"x"}', b"oops", b"[1]", b"", b"\xff"]).faults
    assert faults[0].startswith("column 'n' should be int64, but is \"x\"")
    assert faults[1].startswith("is not JSON")
    assert faults[2] == "is not an object: [1]"
    assert faults[3] == "it is empty"
    assert faults[4].startswith("is not UTF-8")


@pytest.mark.parametrize("decoder", [JsonDecoder(SCHEMA), ArrowDecoder(SCHEMA)], ids=["json", "arrow"])
def test_a_record_without_a_value_has_nulls(decoder: Any) -> None:
    good = b'{"n":1,"s":"a"}' if isinstance(decoder, JsonDecoder) else stream({"n": 1, "s": "a"})
    decoded = decoder.decode([None, good, None])
    assert decoded.rows.to_pylist() == [{"n": None, "s": None}, {"n": 1, "s": "a"}, {"n": None, "s": None}]
    assert decoded.faults == {}
    assert decoder.decode([None]).rows.to_pylist() == [{"n": None, "s": None}]


def test_arrow_has_many_rows_or_none_in_a_value() -> None:
    other = pa.BufferOutputStream()
    with pa.ipc.new_stream(other, pa.schema([("m", pa.int64())])):
        pass
    values = [stream({"n": 1, "s": "a"}, {"n": 2, "s": "b"}), stream(), b"oops", other.getvalue().to_pybytes()]
    decoded = ArrowDecoder(SCHEMA).decode(values)
    assert decoded.rows.column("n").to_pylist() == [1, 2, None, None]
    assert decoded.rows_of is not None
    assert decoded.rows_of.tolist() == [2, 0, 1, 1]
    assert sorted(decoded.faults) == [2, 3]
    assert decoded.faults[3] == "it has no column 'n'; it has m"


def test_raw_is_the_bytes_or_the_text() -> None:
    assert decoder_of("raw", None, None).decode([b"\xff", None]).rows.to_pylist() == [
        {"value": b"\xff"},
        {"value": None},
    ]
    decoded = RawDecoder(pa.schema([("line", pa.string())])).decode([b"a", b"\xff", None])
    assert decoded.rows.to_pylist() == [{"line": "a"}, {"line": None}, {"line": None}]
    assert list(decoded.faults) == [1]
    with pytest.raises(SourceError, match="raw values have one column"):
        RawDecoder(SCHEMA).check()


RECORDS = Records(
    "bids",
    3,
    [b'{"n":1}', b"oops", None],
    [7, 9, 10],
    [1_000, 2_000, None],
    [b"k", None, b"l"],
    [[("h", b"1"), ("h", None)], None, []],
)


def test_keys_timestamps_headers_and_places_are_columns() -> None:
    records = Records(**{**vars(RECORDS), "values": [b'{"n":1}', b"{}", None]})
    maker = RowMaker(JsonDecoder(SCHEMA), Columns("k", "t", "h", "p", "o"), keeps_malformed=False)
    maker.check()
    batch = maker.rows(records)
    assert batch.schema == maker.schema
    assert batch.column("k").to_pylist() == [b"k", None, b"l"]
    assert [each and each.timestamp() for each in batch.column("t").to_pylist()] == [1.0, 2.0, None]
    assert batch.column("h").to_pylist()[0] == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert batch.column("p").to_pylist() == [3, 3, 3]
    assert batch.column("o").to_pylist() == [7, 9, 10]


def test_rows_of_one_value_share_its_key_and_offset() -> None:
    values = [stream({"n": 1, "s": ""}, {"n": 2, "s": ""}), stream(), stream({"n": 3, "s": ""})]
    records = Records(**{**vars(RECORDS), "values": values})
    batch = RowMaker(ArrowDecoder(SCHEMA), Columns(key="k", offset="o"), keeps_malformed=False).rows(records)
    assert batch.select(["n", "k", "o"]).to_pylist() == [
        {"n": 1, "k": b"k", "o": 7},
        {"n": 2, "k": b"k", "o": 7},
        {"n": 3, "k": b"l", "o": 10},
    ]


def test_a_malformed_record_is_an_error_that_names_its_place() -> None:
    with pytest.raises(SourceError) as caught:
        RowMaker(JsonDecoder(SCHEMA), Columns(), keeps_malformed=False).rows(RECORDS)
    assert str(caught.value).startswith(
        "a record of topic 'bids' is malformed: partition 3, offset 9: is not JSON (Expecting value: line 1 column 1"
    )
    assert "the value is oops" in str(caught.value)


def test_a_malformed_record_is_kept_with_all_that_is_known_of_it() -> None:
    batch = RowMaker(JsonDecoder(SCHEMA), Columns(), keeps_malformed=True).rows(RECORDS)
    good, bad, empty = batch.to_pylist()
    assert (good["n"], good["__error"], empty["__error"]) == (1, None, None)
    assert (bad["n"], bad["__topic"], bad["__partition"], bad["__offset"]) == (None, "bids", 3, 9)
    assert (bad["__key"], bad["__value"], bad["__timestamp"].timestamp()) == (None, b"oops", 2.0)


def test_what_is_missing_or_twice_is_refused() -> None:
    with pytest.raises(SourceError, match="values of json need a schema"):
        decoder_of("json", None, None)
    with pytest.raises(SourceError, match="unknown format of values: 'xml'"):
        decoder_of("xml", None, None)  # type: ignore[arg-type]
    with pytest.raises(SourceError, match="two columns of a topic are named 'n'"):
        RowMaker(JsonDecoder(SCHEMA), Columns(key="n"), keeps_malformed=False).check()
