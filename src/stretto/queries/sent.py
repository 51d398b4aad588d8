"""An answer as it is sent to other processes: an Arrow stream, whose schema's metadata has what is known beside the
rows.
"""

from __future__ import annotations

import datetime
from typing import Any

import msgspec
import pyarrow as pa

from stretto.errors import ProtocolError
from stretto.queries.answers import Answer, Missing
from stretto.queries.moments import microseconds_of, time_of

ARROW = "application/vnd.apache.arrow.stream"
ABOUT = b"stretto"
"""The key of the metadata under which freshness and completeness are, as JSON."""


class Absent(msgspec.Struct, frozen=True):
    """What could not answer, and why."""

    what: str
    why: str


class About(msgspec.Struct, frozen=True):
    """What is known of an answer beside its rows: see `Answer`."""

    fresh_until: str | None
    complete: bool
    missing: list[Absent]
    rows_read: int
    workers: int


def about(answer: Answer) -> dict[str, Any]:
    """Returns what is known of an answer, as `About` has it."""
    fresh = None if answer.as_of_us is None else time_of(answer.as_of_us).isoformat().replace("+00:00", "Z")
    return {
        "fresh_until": fresh,
        "complete": answer.complete,
        "missing": [Absent(each.what, each.reason) for each in answer.missing],
        "rows_read": answer.rows_read,
        "workers": answer.workers,
    }


def stream_of(table: pa.Table) -> pa.Buffer:
    """Returns the rows as an Arrow stream."""
    data = pa.BufferOutputStream()
    with pa.ipc.new_stream(data, table.schema) as writer:
        writer.write_table(table)
    return data.getvalue()


def arrow_of(answer: Answer) -> bytes:
    """Returns an answer as an Arrow stream."""
    table = answer.table.replace_schema_metadata({ABOUT: msgspec.json.encode(about(answer))})
    content: bytes = stream_of(table).to_pybytes()
    return content


def answer_of(content: bytes) -> Answer:
    """Returns the answer that a stream has."""
    try:
        table = pa.ipc.open_stream(pa.py_buffer(content)).read_all()
        found = msgspec.json.decode((table.schema.metadata or {}).get(ABOUT, b""), type=About)
        fresh = None if found.fresh_until is None else datetime.datetime.fromisoformat(found.fresh_until)
    except (pa.ArrowException, OSError, ValueError, msgspec.MsgspecError) as error:
        raise ProtocolError("an answer cannot be read", str(error), "Use the same version of stretto.") from error
    missing = tuple(Missing(each.what, each.why) for each in found.missing)
    as_of_us = None if fresh is None else microseconds_of(fresh)
    return Answer(table.replace_schema_metadata(None), as_of_us, missing, found.rows_read, found.workers)
