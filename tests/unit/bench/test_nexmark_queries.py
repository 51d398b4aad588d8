"""The NEXMark queries as apps: all are there, the oracle has each of them, and micro-batches refuse some by name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stretto.api.relational import unsupported
from stretto.bench.nexmark import oracle
from stretto.bench.nexmark.further_queries import count_char
from stretto.bench.nexmark.queries import PARTITIONED, QUERIES, Workload, build
from stretto.bench.nexmark.run import read_back
from stretto.errors import UserError

REFUSED = {
    "q4": "running aggregate 'winners.aggregate' comes after 'winners', which also keeps state",
    "q6": "running aggregate 'winners.select.aggregate' comes after 'winners', which also keeps state",
    "q9": "top 'auction.join.top' ranks all rows so far, and a row that is overtaken is removed",
    "q18": "top 'bid.drop_duplicates' ranks all rows so far, and a row that is overtaken is removed",
    "q19": "top 'bid.top' ranks all rows so far, and a row that is overtaken is removed",
}
"""Why a query cannot run as micro-batches, which have one stateful step if rows change."""


def test_there_are_23_queries_and_the_oracle_has_each() -> None:
    assert list(QUERIES) == [f"q{number}" for number in range(23)]
    assert set(oracle.QUERIES) == set(QUERIES)


def test_an_unknown_query_is_refused() -> None:
    with pytest.raises(UserError, match="no NEXMark query 'q23'"):
        build("q23", Workload())


@pytest.mark.parametrize("query", QUERIES)
def test_micro_batches_run_a_query_or_refuse_it_by_name(query: str) -> None:
    plan = build(query, Workload()).plan()
    assert unsupported(plan, streaming=True) == REFUSED.get(query)
    assert unsupported(plan, streaming=False) is None


def test_count_char_counts_one_letter() -> None:
    texts = pa.array(["cacao", "", "tea", "ccc"])
    assert count_char(texts, pa.array(["c"] * 4)).to_pylist() == [2, 0, 0, 3]
    with pytest.raises(ValueError, match="unpack"):
        count_char(texts, pa.array(["c", "a", "c", "c"]))


def test_files_are_read_back_with_the_columns_of_their_directories(tmp_path: Path) -> None:
    schema = pa.schema([("auction", pa.int64()), ("dt", pa.string()), ("hm", pa.string())])
    for minute, auctions in (("23%3A59", [1, 2]), ("00%3A00", [3])):
        directory = tmp_path / "dt=2015-07-15" / f"hm={minute}"
        directory.mkdir(parents=True)
        pq.write_table(pa.table({"auction": auctions}), directory / "part-0.parquet")
    found = read_back(tmp_path, schema, PARTITIONED["q10"])
    assert found.schema == schema
    assert sorted(map(tuple, (row.values() for row in found.to_pylist()))) == [
        (1, "2015-07-15", "23:59"),
        (2, "2015-07-15", "23:59"),
        (3, "2015-07-15", "00:00"),
    ]


def test_query_10_writes_files_only_where_it_is_told_to(tmp_path: Path) -> None:
    assert build("q10", Workload()).plan().sink_named("out").sink.collects
    assert "Parquet" in build("q10", Workload(files=tmp_path)).plan().sink_named("out").sink.describe()
    assert build("q0", Workload(files=tmp_path)).plan().sink_named("out").sink.collects
