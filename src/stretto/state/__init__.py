"""State: what a function remembers between batches, and how partial states are merged.

A state is declared on a function (`totals = MapState(combine=operator.add)`) and belongs to one instance of an
actor. Where every state of a function can combine, the function may run in parallel: each instance keeps a
partial state, and partial states are merged at a barrier (dirigo.txt 5.3). This room must never know who runs
the function, where, or what time it is.

Read next: `kinds.py` for value, list and map state; `operators/` for the columnar states of windows and joins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stretto.state.dividing import KeyedPart, Surveyed
from stretto.state.fragments import Deferred, Fragment
from stretto.state.kinds import ListState, MapState, State, ValueState, states_of

__all__ = [
    "Deferred",
    "Fragment",
    "KeyedPart",
    "ListState",
    "MapState",
    "State",
    "Surveyed",
    "ValueState",
    "read",
    "states_of",
]

if TYPE_CHECKING:
    from os import PathLike

    from pyspark.sql import DataFrame, SparkSession


def read(
    spark: SparkSession,
    directory: str | PathLike[str],
    function: str | type[Any],
    *,
    checkpoint: int | None = None,
    savepoint: str | None = None,
    state: str | None = None,
) -> DataFrame:
    """Returns the state of a function as a DataFrame, from the last complete checkpoint of a directory, from the given
    checkpoint or from a savepoint. The columns are those of Spark's own state reader: the structs `key` and `value`,
    and `partition_id`. If the function has several states, `state` names the one to read; without it, a further column
    `state` names the state of each row.

    Of an app with entities, `function` is a class of entities, or its name: each row is an entity, with the columns
    `key` and those of its fields, at the end of the last complete snapshot. An entity whose fields have never changed
    from their defaults has no row. While no calls come, no snapshots are taken. All rows are read at once, and kept by
    Spark. The entities of an app that has streams too are in the directory `entities` below its own.

    Raises a DamagedError that names the file if a file is not as it was written. The rows are read when the DataFrame
    is used. While an app runs, read a savepoint: other checkpoints are removed when newer ones are complete."""
    from stretto.runtime.state_reader import read_state  # Imported here, since this room must not know storage.

    name = function if isinstance(function, str) else function.__name__
    return read_state(spark, directory, name, checkpoint=checkpoint, savepoint=savepoint, state=state)
