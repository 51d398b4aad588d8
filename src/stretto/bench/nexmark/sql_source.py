"""NEXMark's events as a table of SQL: CREATE STREAMING TABLE bid USING nexmark OPTIONS (kind = 'bid')."""

from __future__ import annotations

from collections.abc import Sequence

from stretto.bench.nexmark.events import SCHEMAS, Kind, NexmarkConfig
from stretto.bench.nexmark.source import NexmarkSource
from stretto.errors import UserError


def nexmark(
    kind: str,
    events: int | None = None,
    seed: int = 7,
    rate: float | None = None,
    event_rate: int = 10_000,
    disorder: float = 0.0,
    columns: Sequence[str] | None = None,
) -> NexmarkSource:
    """Returns a source of the events of one kind, with those of its columns that are wanted."""
    if kind not in list(Kind):
        raise UserError(
            f"NEXMark has no events of kind {kind!r}", None, f"Write kind = {', '.join(map(repr, map(str, Kind)))}."
        )
    config = NexmarkConfig(seed=seed, events=events, event_rate=event_rate, disorder_s=disorder)
    names = SCHEMAS[Kind(kind)].names
    wanted = None if columns is None else [name for name in names if name.lower() in columns]
    return NexmarkSource(kind, config, rate, wanted or None)
