"""What the verbs that work in windows require of a stream and of a window."""

from __future__ import annotations

import pyarrow as pa

from stretto.errors import PlanError
from stretto.operators.windows import Session, Window

TIMESTAMP = pa.timestamp("us", tz="UTC")


def needs_window_columns(stream: str, schema: pa.Schema, verb: str) -> None:
    missing = [column for column in ("window_start", "window_end") if column not in schema.names]
    if missing:
        raise PlanError(
            f"{verb} needs windows, and stream '{stream}' has no {' and no '.join(missing)}",
            None,
            "Put .window(...) before it, or keep window_start and window_end in select.",
        )


def no_sessions(window: Window | None, verb: str, stream: str) -> None:
    if isinstance(window, Session):
        raise PlanError(
            f"{verb} on '{stream}' cannot be over sessions",
            "the bounds of a session are unknown before it closes",
            "Aggregate in sessions first, or use tumbling or hopping windows.",
        )
