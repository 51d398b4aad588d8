"""from_utc_timestamp and to_utc_timestamp, and functions whose zone may differ from row to row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from stretto.expressions import types
from stretto.expressions.local_times import instants
from stretto.expressions.moments import moment, string
from stretto.expressions.nodes import Node, Site, combine, computed, constant, null
from stretto.expressions.registry import fixed
from stretto.expressions.vectors import Value, arrow_operand, both_valid, to_arrow
from stretto.expressions.zones import UTC, Zone, find_zone, session_zone

Apply = Callable[..., Value]
"""Called with a zone, the validity and the values; returns timestamps and their validity."""


def _known(name: str, site: Site) -> Zone:
    zone = find_zone(name)
    if zone is None:
        raise site.error(
            f"there is no time zone {name!r}", None, "use a name such as Europe/Berlin, or an offset such as +05:30"
        )
    return zone


def by_zone(names: Node, parts: Sequence[Node], apply: Apply, site: Site) -> Node:
    """Returns timestamps that are computed in the zone that a string names."""
    if not names.columns:
        name = arrow_operand(names.constant, types.STRING).as_py()
        if name is None:
            return null(types.TIMESTAMP, site)
        return computed(types.TIMESTAMP, lambda *given: apply(_known(name, site), *given), site, parts)
    run_names, runs = names.run, [part.run for part in parts]

    def run(batch: pa.RecordBatch) -> Value:
        encoded = to_arrow(run_names(batch), types.STRING, batch.num_rows).dictionary_encode()
        places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        valid, values = None, []
        for part in runs:
            one, one_valid = part(batch)
            values.append(np.broadcast_to(one, places.shape))
            valid = both_valid(valid, one_valid)
        valid = np.broadcast_to(True if valid is None else valid, places.shape) & (places >= 0)
        result = np.zeros(batch.num_rows, np.int64)
        for place, name in enumerate(encoded.dictionary.to_pylist()):
            rows = valid & (places == place)
            if rows.any():
                result[rows] = apply(_known(name, site), None, *(value[rows] for value in values))[0]
        return result, valid

    return combine(types.TIMESTAMP, run, site, (names, *parts), fallible=True)


def from_utc_timestamp(site: Site, node: Node, zone: Node) -> Node:
    """Returns the timestamp whose text in UTC is that of the given one in a zone."""

    def apply(own: Zone, valid: Any, micros: Any) -> Value:
        return instants(UTC, *own.local(micros), valid, site), valid

    return by_zone(string(zone, site), [moment(node, site)], apply, site)


def to_utc_timestamp(site: Site, node: Node, zone: Node) -> Node:
    """Returns the timestamp whose text in a zone is that of the given one in UTC."""

    def apply(own: Zone, valid: Any, micros: Any) -> Value:
        return instants(own, *UTC.local(micros), valid, site), valid

    return by_zone(string(zone, site), [moment(node, site)], apply, site)


def current_timezone(site: Site) -> Node:
    """Returns the name of the session's zone."""
    return constant(types.STRING, (pa.scalar(session_zone().name), None), site)


FUNCTIONS = {
    "current_timezone": fixed(current_timezone, 0),
    "from_utc_timestamp": fixed(from_utc_timestamp, 2),
    "to_utc_timestamp": fixed(to_utc_timestamp, 2),
}
