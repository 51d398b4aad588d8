"""The public names of sources and sinks."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stretto import sinks, sources
from stretto.errors import PlanError


def test_sources_describe_themselves(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2]})
    pq.write_table(table, tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n')
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    assert sources.memory(table).describe() == "memory, 2 rows in 1 batches"
    assert sources.parquet(tmp_path / "a.parquet").describe() == f"Parquet {tmp_path}/a.parquet"
    assert sources.jsonl(tmp_path / "a.jsonl").describe() == f"JSON-lines {tmp_path}/a.jsonl"
    assert sources.arrow(tmp_path / "a.arrow").describe() == f"Arrow {tmp_path}/a.arrow"
    assert sources.files(tmp_path / "a.jsonl").schema == pa.schema([("a", pa.int64())])
    with pytest.raises(PlanError, match="takes a Spark DataFrame for 'df': got a list"):
        sources.dataframe([])  # type: ignore[arg-type]


def test_sinks_describe_themselves(tmp_path: Path) -> None:
    made = [sinks.collect(), sinks.parquet(tmp_path), sinks.console(5), sinks.null(), sinks.callback(print, per="row")]
    assert [sink.describe() for sink in made] == [
        "collect",
        f"Parquet files in {tmp_path} (error)",
        "console, 5 rows of a batch",
        "null",
        "callback print per row",
    ]
    assert [sink.on_driver for sink in made] == [True, False, True, False, True]
