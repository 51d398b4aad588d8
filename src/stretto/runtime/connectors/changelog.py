"""The changelog of a sink that can only add rows: a column from which the content of a stream that changes is found.

If rows only replace each other, the column tells which of a key's rows is the last. Numbers increase with every row
that one partition writes, and all rows of a key are in one partition. A job that resumes from checkpoint c, maybe with
other partitions, begins with the numbers of c, and everything that c has was written with those of earlier checkpoints.

If rows are also removed, the column has their weights: 1 for an added row, -1 for a removed one. A row is there if its
weights add up to more than 0, in whatever order they were written.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stretto.errors import UserError
from stretto.operators.changes.weights import CHANGE, plain_schema

ROWS_PER_CHECKPOINT = 1 << 33


class Changelog:
    """Adds the column to the rows of one partition."""

    def __init__(self, column: str) -> None:
        self._column = column
        self._next = 0

    def numbered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows with their numbers, or with their weights under the name of the column."""
        if batch.schema.names[-1] == CHANGE:
            return batch.rename_columns([*batch.schema.names[:-1], self._column])
        first, self._next = self._next, self._next + batch.num_rows
        return batch.append_column(self._column, pa.array(np.arange(first, self._next, dtype=np.int64)))

    def passed(self, checkpoint: int) -> None:
        """Notes that rows from now on come after this checkpoint."""
        self._next = max(self._next, checkpoint * ROWS_PER_CHECKPOINT)


def with_changelog(schema: pa.Schema, column: str | None) -> pa.Schema:
    """Returns the columns that are written."""
    if column is None:
        return schema
    schema = plain_schema(schema)
    if column in schema.names:
        raise UserError(f"the changelog cannot be in column '{column}'", "the rows have one of that name already")
    return schema.append(pa.field(column, pa.int64()))
