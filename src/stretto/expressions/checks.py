"""Functions that check rows and types: assert_true, raise_error, typeof."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stretto.expressions import logic, types
from stretto.expressions.arguments import text
from stretto.expressions.intervals import fields_of, is_interval
from stretto.expressions.nodes import Node, Site, combine, constant
from stretto.expressions.registry import Function, fixed
from stretto.expressions.vectors import Value, arrow_operand, null_of


def raise_error(site: Site, message: Node) -> Node:
    """Returns a node that fails with the message on every row that reaches it."""
    inner = text(message, site)
    run_message = inner.run

    def run(batch: pa.RecordBatch) -> Value:
        found = arrow_operand(run_message(batch), types.STRING)
        first = found if isinstance(found, pa.Scalar) else found[0] if len(found) else pa.scalar(None, types.STRING)
        raise site.error(f"raise_error: {first.as_py()}")

    return combine(types.NULL, run, site, (inner,), fallible=True)


def assert_true(site: Site, condition: Node, message: Node | None = None) -> Node:
    """Returns NULL, and fails on the rows where the condition is false or null."""
    text = message or constant(types.STRING, (pa.scalar(f"'{condition.site.part}' is not true!"), None), site)
    holds, fails = logic.boolean(condition, site), raise_error(site, text)
    run_condition, run_failure = holds.run, fails.run

    def run(batch: pa.RecordBatch) -> Value:
        values, valid = run_condition(batch)
        wrong = ~np.broadcast_to(values if valid is None else values & valid, batch.num_rows or np.shape(values))
        if np.any(wrong):
            rows = batch.filter(pa.array(wrong)) if batch.num_rows else batch
            run_failure(rows)
        return null_of(types.NULL)

    return combine(types.NULL, run, site, (holds, text), fallible=True)


def type_of(site: Site, node: Node) -> Node:
    """Returns the name of the type."""
    name = types.spark_type_name(node.type)
    if is_interval(node.type):
        first, last = fields_of(node)
        name = f"interval {first}" if first == last else f"interval {first} to {last}"
    return constant(types.STRING, (pa.scalar(name), None), site)


FUNCTIONS = {
    "assert_true": Function(assert_true, 1, 2),
    "raise_error": fixed(raise_error, 1),
    "typeof": fixed(type_of, 1),
}
