"""Arguments that are dates or timestamps, with Spark's implicit casts: a string is read, a date is its midnight."""

from __future__ import annotations

import pyarrow as pa

from stretto.expressions import types
from stretto.expressions.casts import cast
from stretto.expressions.nodes import Node, Site


def moment(node: Node, site: Site) -> Node:
    """Returns the node as a timestamp."""
    return _implicitly(node, types.TIMESTAMP, "timestamp or date", site)


def day(node: Node, site: Site) -> Node:
    """Returns the node as a date."""
    return _implicitly(node, types.DATE, "date or timestamp", site)


def string(node: Node, site: Site) -> Node:
    """Returns the node as a string; numbers and times become their text."""
    if types.is_nested(node.type) or node.type == types.BINARY:
        raise site.wrong_type("string", node.type)
    return cast(node, types.STRING, site)


def integer(node: Node, site: Site, kind: pa.DataType = types.INT) -> Node:
    """Returns the node as an int, or as another integral type. Numbers of other types and strings are cast."""
    if node.type in (types.NULL, types.STRING) or types.is_numeric(node.type):
        return cast(node, kind, site)
    raise site.wrong_type(types.spark_type_name(kind), node.type)


def _implicitly(node: Node, kind: pa.DataType, wanted: str, site: Site) -> Node:
    if node.type in (types.NULL, types.STRING) or types.is_temporal(node.type):
        return cast(node, kind, site)
    raise site.wrong_type(wanted, node.type)
