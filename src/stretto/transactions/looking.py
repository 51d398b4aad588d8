"""Calls of methods that only read (`@reads`): they run on a committed state, at once, and are never logged."""

from __future__ import annotations

from collections.abc import Mapping

from stretto.errors import UserError
from stretto.protocol.transactions import EntityName, Invoke, Look, Reply
from stretto.transactions.catalog import Catalog
from stretto.transactions.invocation import Invocation, failure_of
from stretto.transactions.shares import WHOLE


def looked(catalog: Catalog, state: Mapping[EntityName, bytes], look: Look, epoch: int, at_us: int) -> Reply:
    """Returns the reply to a look whose arguments were checked."""
    request, origin = look.request, look.origin
    name = request.entity
    kind = catalog.kind(name.kind)
    method = kind.method(request.method)
    try:
        instance = kind.instance(name.key, state.get(name))
        before = kind.fields(instance)
        invoke = Invoke(0, (), request, WHOLE, at_us, f"{origin.client}-{origin.number}")
        step = Invocation(invoke, 0, instance, kind, method, catalog).start() if method.only_reads else None
        if step is None or kind.fields(instance) != before:
            text = "it is not marked with @reads" if step is None else "it has changed a field"
            raise UserError(f"{name.kind}.{method.name} does not only read", text)
    except UserError as error:
        return Reply(origin.client, origin.number, None, failure_of(error, name), None, epoch)
    return Reply(origin.client, origin.number, step.value, step.failure, None, epoch)
