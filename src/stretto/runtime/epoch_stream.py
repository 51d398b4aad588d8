"""The rows of a job as a streaming DataFrame: a Python Data Source over a directory of epochs.

An offset is the last epoch of each line (`connectors/epochs.py`), so it says by itself which files a micro-batch has. A
batch that Spark plans again after a failure has the same files, which never change. Nothing is removed: any number of
queries read a directory, each from its own offsets, which Spark keeps in the query's checkpoint.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from stretto.api.memory import conform
from stretto.errors import SourceError
from stretto.runtime.connectors.epochs import epochs_in, schema_of
from stretto.runtime.relational import spark_schema, wire_schema

FORMAT = "stretto"


def register(spark: SparkSession) -> None:
    """Makes the format known to a session."""
    spark.dataSource.register(EpochStream)


def read_epochs(spark: SparkSession, directory: str | os.PathLike[str]) -> DataFrame:
    """Returns the rows of a directory of epochs as a streaming DataFrame."""
    register(spark)
    return spark.readStream.format(FORMAT).option("sink", os.path.abspath(os.fspath(directory))).load()


class EpochStream(DataSource):
    """`spark.readStream.format("stretto").option("sink", directory)`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return spark_schema(schema_of(self._directory()))

    def streamReader(self, schema: StructType) -> EpochReader:
        return EpochReader(self._directory())

    def _directory(self) -> Path:
        directory = self.options.get("sink")
        if not directory:
            raise SourceError(
                'the format "stretto" needs the directory of a sink', None, 'Name it with .option("sink", directory).'
            )
        if not os.path.isabs(directory):
            raise SourceError(
                f"the directory of a sink is not absolute: {directory}",
                "Spark opens it in a process with another current directory",
                "Write the whole path.",
            )
        return Path(directory)


@dataclass
class LineFiles(InputPartition):
    """The files of one line that a micro-batch has, in their order."""

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__init__(self.names)


class EpochReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches next to the driver, and reads them in tasks.

    With the trigger `availableNow`, Spark runs a single batch of a source that does not say what is available: if the
    query had stopped in a batch, that one again, and nothing of what has come since."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._available: dict[str, int] | None = None
        """The last epochs that the query is to read before it ends."""

    def initialOffset(self) -> dict[str, Any]:
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._available = self._last_epochs()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        latest: dict[str, int] = dict(start)
        for line, epoch in (self._last_epochs() if self._available is None else self._available).items():
            latest[line] = max(epoch, latest.get(line, 0))
        return dict(sorted(latest.items()))

    def _last_epochs(self) -> dict[str, int]:
        last: dict[str, int] = {}
        for line, epoch, _ in epochs_in(self._directory):
            last[line] = max(epoch, last.get(line, 0))
        return last

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        lines: dict[str, list[str]] = defaultdict(list)
        for line, epoch, name in sorted(epochs_in(self._directory)):
            if start.get(line, 0) < epoch <= end.get(line, 0):
                lines[line].append(name)
        for line, last in end.items():
            if last > start.get(line, 0) and not (lines[line] and lines[line][-1].endswith(f"-{last:09d}.parquet")):
                raise SourceError(
                    f"epoch {last} of {line} is gone from {self._directory}",
                    "the query has planned to read it",
                    "Restore the file: a query reads every epoch before it may be removed.",
                )
        return [LineFiles(tuple(names)) for names in lines.values() if names]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LineFiles)
        wire = wire_schema(schema_of(self._directory))
        for name in partition.names:
            with pq.ParquetFile(self._directory / name) as file:
                for batch in file.iter_batches():
                    yield conform(batch, wire)
