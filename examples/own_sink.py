"""A sink of one's own: a table of SQLite that has the last row of each key, exactly once with checkpoints.

stretto run examples.own_sink:app --checkpoint checkpoints/
"""

import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from examples.own_source import Thermometers
from stretto import App, Sink, SinkWriter
from stretto.actors.address import Attempt
from stretto.actors.sink import CheckpointedWriter


class SqliteSink(Sink):
    """Rows replace earlier rows with the same key."""

    on_driver = True  # One process writes the file: the driver's.
    takes_updates = True  # A running aggregate may end here.

    def __init__(self, path: str, table: str, key: str) -> None:
        self.path = Path(path).absolute()
        self.table = table
        self.key = key

    def check(self, schema: pa.Schema) -> None:
        """Called when the app is written, before anything runs."""
        if self.key not in schema.names:
            raise ValueError(f"the key '{self.key}' is not among the columns {', '.join(schema.names)}")

    def writer(self, schema: pa.Schema, partition: int, partitions: int) -> SinkWriter:
        return SqliteWriter(self.path, self.table, self.key, schema)

    def checkpointed_writer(
        self, schema: pa.Schema, partition: int, partitions: int, attempt: Attempt
    ) -> CheckpointedWriter:
        return SqliteCheckpointed(SqliteWriter(self.path, self.table, self.key, schema), schema)

    def describe(self) -> str:
        return f"table {self.table} of {self.path}"


class SqliteWriter(SinkWriter):
    """Writes each batch in one transaction."""

    def __init__(self, path: Path, table: str, key: str, schema: pa.Schema) -> None:
        self.connection = sqlite3.connect(path, check_same_thread=False)
        columns = [f'"{field.name}" {column_type(field.type)}' for field in schema]
        self.connection.execute(f'CREATE TABLE IF NOT EXISTS "{table}" ({", ".join(columns)}, PRIMARY KEY ("{key}"))')
        self.insert = f'INSERT OR REPLACE INTO "{table}" VALUES ({", ".join("?" * len(schema))})'

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        with self.connection:
            self.connection.executemany(self.insert, zip(*(c.to_pylist() for c in batch.columns), strict=True))

    def close(self) -> None:
        self.connection.close()


class SqliteCheckpointed(CheckpointedWriter):
    """Rows wait until a complete checkpoint has them. `publish` may be called again after a failure, maybe in another
    process; that changes nothing, because the same rows replace themselves."""

    def __init__(self, writer: SqliteWriter, schema: pa.Schema) -> None:
        self.writer = writer
        self.schema = schema
        self.held: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self.held.append(batch)

    def seal(self, checkpoint: int) -> pa.Table | None:
        """Returns the rows since the last checkpoint, which become a part of this one."""
        held, self.held = self.held, []
        return pa.Table.from_batches(held, self.schema) if held else None

    def check_part(self, part: Any) -> None:
        if not isinstance(part, pa.Table) or not part.schema.equals(self.schema):
            raise ValueError("these are not rows of this sink")

    def publish(self, checkpoint: int, part: pa.Table) -> None:
        self.writer.write(part)

    def close(self) -> None:
        self.writer.close()


def column_type(kind: pa.DataType) -> str:
    return "INTEGER" if pat.is_integer(kind) else "REAL" if pat.is_floating(kind) else "TEXT"


def make_app(path: str = "thermometers.db") -> App:
    """Returns the app: how often each sensor has reported, and its highest temperature."""
    app = App("sqlite", engine="actors")
    readings = app.source("readings", Thermometers(sensors=4, rounds=100), time="at")
    totals = readings.key_by("sensor").aggregate(n="count(*)", degrees="max(degrees)", name="totals")
    totals.sink(SqliteSink(path, "totals", "sensor"), name="out")
    return app


app = make_app()
