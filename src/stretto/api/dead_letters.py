"""A source's records that could not be read as rows go to a sink of their own, and the others on.

A source with `dead_letters` gives every record a row. Those of malformed records are nulls, with what is known of them
in the columns of `MALFORMED`. They are parted from the others right behind the source, by a filter each: so they take
the same way as all rows, and are written exactly once where rows are.
"""

from __future__ import annotations

from stretto.actors.sink import Sink
from stretto.actors.source import MALFORMED
from stretto.api.stream import Stream
from stretto.expressions.scalar import quoted


def records_name(name: str) -> str:
    """Returns the name of the stream of all records."""
    return f"{name}-records"


def well_formed(records: Stream, name: str, dead_letters: Sink) -> Stream:
    """Returns the rows of records that could be read, under the name of the source."""
    error = quoted(MALFORMED.names[0])
    malformed = records.filter(f"{error} IS NOT NULL", name=f"{name}-malformed")
    columns = [f"{quoted(each)} AS {quoted(each.removeprefix('__'))}" for each in MALFORMED.names]
    malformed.select(*columns, name=f"{name}-letters").sink(dead_letters, name=f"{name}-dead-letters")
    kept = [quoted(each) for each in records.schema.names if each not in MALFORMED.names]
    return records.filter(f"{error} IS NULL", name=f"{name}-rows").select(*kept, name=name)
