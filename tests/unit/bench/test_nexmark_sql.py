"""NEXMark as SQL text has the answers of the Python API, by workers in virtual time; Spark judges both elsewhere."""

from __future__ import annotations

import pytest
from tests.sql_runs import simulated

from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.queries import QUERIES, Workload, build
from stretto.bench.nexmark.sql_queries import SQL_QUERIES, build_sql
from stretto.bench.verify import Match, compare
from stretto.errors import UserError

WORKLOAD = Workload(NexmarkConfig(events=3_000, seed=7, event_rate=100, disorder_s=2.0), batch=200)


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_as_text_answers_as_in_python(query: str) -> None:
    verdict = compare(simulated(build_sql(query, WORKLOAD), "out"), simulated(build(query, WORKLOAD), "out"))
    assert verdict.match is Match.MATCH, verdict.describe()
    assert verdict.rows_expected > 0


def test_every_query_is_there_as_text() -> None:
    assert set(SQL_QUERIES) == set(QUERIES)
    with pytest.raises(UserError, match="no NEXMark query 'q99' in SQL"):
        build_sql("q99", WORKLOAD)
