"""The classes of entities of an app, by name, and the check of calls that come from outside."""

from __future__ import annotations

from collections.abc import Iterable

from stretto.errors import UserError
from stretto.protocol.transactions import EntityName, Request
from stretto.transactions.activation import MadeCall
from stretto.transactions.entity import Entity
from stretto.transactions.kinds import ARGUMENTS_BYTES_MAX, Kind, Method, described


class Catalog:
    """The classes of entities of an app, by name."""

    def __init__(self, entities: Iterable[type[Entity]]) -> None:
        self._kinds: dict[str, Kind] = {}
        for entity in entities:
            kind = described(entity)
            if kind.name in self._kinds:
                raise UserError(f"two entities are named {kind.name}", None, "Rename one of them.")
            self._kinds[kind.name] = kind

    def kind(self, name: str) -> Kind:
        if name not in self._kinds:
            raise UserError(f"there is no entity '{name}'", None, f"The app has {', '.join(self._kinds) or 'none'}.")
        return self._kinds[name]

    def request(self, made: MadeCall) -> Request:
        """Returns a client's call as it is sent. Its arguments were checked when it was made."""
        self.kind(made.kind).method(made.method)
        return Request(EntityName(made.kind, made.key), made.method, made.arguments)

    def checked(self, request: Request) -> Method:
        """Returns the method of a request that has come from outside, if its arguments are right."""
        method = self.kind(request.entity.kind).method(request.method)
        if len(request.arguments) > ARGUMENTS_BYTES_MAX:
            raise UserError(f"the arguments of {request.entity.kind}.{request.method} are too large")
        method.decode(request.arguments)
        return method
