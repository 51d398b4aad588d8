"""The classes of entities of an app, by name, and the check of calls that come from outside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stretto.errors import UserError
from stretto.operators.row_codec import RowCodec
from stretto.protocol.transactions import EntityName, Request
from stretto.rendering import shown
from stretto.transactions.activation import MadeCall
from stretto.transactions.entity import Entity
from stretto.transactions.kinds import AFTER_US_MAX, ARGUMENTS_BYTES_MAX, Kind, Method, described
from stretto.transactions.placement import Placement

KEY_LENGTH_MAX = 255
"""The most characters of an idempotency key."""


class Catalog:
    """The classes of entities of an app, by name, and the streams that they emit rows into."""

    def __init__(self, entities: Iterable[type[Entity]], streams: Mapping[str, RowCodec] | None = None) -> None:
        self._kinds: dict[str, Kind] = {}
        self._streams = dict(streams or {})
        for entity in entities:
            kind = described(entity)
            if kind.name in self._kinds:
                raise UserError(f"two entities are named {kind.name}", None, "Rename one of them.")
            self._kinds[kind.name] = kind

    def kinds(self) -> Iterable[Kind]:
        return self._kinds.values()

    def kind(self, name: str) -> Kind:
        if name not in self._kinds:
            raise UserError(f"there is no entity '{name}'", None, f"The app has {', '.join(self._kinds) or 'none'}.")
        return self._kinds[name]

    def streams(self) -> Iterable[str]:
        """The names of the streams that rows are emitted into."""
        return self._streams.keys()

    def stream(self, name: str) -> RowCodec:
        found = self._streams.get(name) if isinstance(name, str) else None
        if found is None:
            fact = f"the app emits into no stream {shown(name)}"
            raise UserError(
                fact, f"it has {', '.join(self._streams) or 'none'}", "Declare it: app.emitted(name, schema)."
            )
        return found

    def request(self, made: MadeCall) -> Request:
        """Returns a client's call as it is sent. Its arguments were checked when it was made."""
        method = self.kind(made.kind).method(made.method)
        request = Request(
            EntityName(made.kind, made.key), made.method, made.arguments, made.idempotency_key, made.after_us
        )
        if request.key is not None:
            _check_key(request.key, request.entity.kind, method)
        return request

    def has_limit(self, entity: EntityName) -> bool:
        """Whether there is a limit on calls of an entity. Then the worker that has it counts them, and an idempotency
        key belongs to one entity."""
        kind = self._kinds.get(entity.kind)
        return kind is not None and kind.in_flight_max > 0

    def worker_of(self, request: Request, placement: Placement) -> int:
        """Returns the worker that a client's call is sent to: that of its idempotency key, if it has one."""
        if request.key is None or self.has_limit(request.entity):
            return placement.worker_of(request.entity)
        return placement.worker_of_key(request.key)

    def checked(self, request: Request) -> Method:
        """Returns the method of a request that has come from outside, if its arguments are right."""
        method = self.kind(request.entity.kind).method(request.method)
        if len(request.arguments) > ARGUMENTS_BYTES_MAX:
            raise UserError(f"the arguments of {request.entity.kind}.{request.method} are too large")
        if request.key is not None:
            _check_key(request.key, request.entity.kind, method)
        method.decode(request.arguments)
        if request.after_us and (method.only_reads or not 0 < request.after_us <= AFTER_US_MAX):
            raise UserError(f"a call of {request.entity.kind}.{method.name} cannot be delayed by {request.after_us} us")
        return method


def _check_key(key: str, kind: str, method: Method) -> None:
    if not isinstance(key, str) or not 0 < len(key) <= KEY_LENGTH_MAX or not key.isprintable():
        raise UserError(
            "this is not an idempotency key", shown(key), f"Pass a text of 1 to {KEY_LENGTH_MAX} printable characters."
        )
    if method.only_reads:
        raise UserError(
            f"{kind}.{method.name} takes no idempotency key",
            "it only reads, and may be repeated as it is",
            "Leave the key out.",
        )
