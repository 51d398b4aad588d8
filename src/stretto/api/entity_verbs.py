"""The verb with which rows call entities."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, get_type_hints

import pyarrow as pa

from stretto.api import plan
from stretto.api.arguments import COLUMN, TEXT, Kind, mapping_of, takes
from stretto.api.entity_types import KNOWN, column_of, fits
from stretto.api.step import Verbs
from stretto.errors import PlanError
from stretto.operators.calling import Called

if TYPE_CHECKING:
    from stretto.api.stream import Stream

METHOD = Kind("an async method of an entity, such as Account.transfer", inspect.iscoroutinefunction)
BY_NAME = Kind('a dict from parameters to columns, such as {"amount": "price"}', mapping_of(COLUMN))


class EntityVerbs(Verbs):
    """Streams that call entities."""

    @takes(method=METHOD, key=COLUMN, into=TEXT, arguments=BY_NAME.optional(), columns=COLUMN)
    def call(
        self,
        method: Callable[..., Any],
        *,
        key: str,
        into: str = "reply",
        arguments: Mapping[str, str] | None = None,
        name: str | None = None,
        parallelism: int | None = None,
        **columns: str,
    ) -> Stream:
        """Calls an entity for each row, as one transaction, and returns the rows with the replies:
        `payments.call(Account.transfer, key="payer", to="payee", amount="amount")`.

        `key` is the column with the key of the entity, and each parameter of the method gets a column. The result is in
        the column `into`, if the method returns one. If the transaction was aborted, that is null, `<into>_error` has
        the class of the exception and `<into>_error_text` its text. `arguments` is for parameters whose names this verb
        has itself.

        Each row's transaction takes place exactly once, whatever is lost. In a job with checkpoints a row is called
        when the next checkpoint is complete, so `every=` of `submit` is how long it may wait; methods that are marked
        @reads are called at once. Rows keep their order, but the transactions of rows that are under way together take
        place in any."""
        self._step.only_added("call")
        subject = f"call on '{self.name}'"
        kind = self._kind_of(subject, method)
        given = {**columns, **(arguments or {})}
        called = Called(
            kind,
            method.__name__,
            self._key_column(subject, key),
            _checked(subject, f"{kind}.{method.__name__}", method, given, self.schema),
            bool(getattr(method, "__stretto_reads__", False)),
        )
        result = _result(subject, f"{kind}.{method.__name__}", method)
        made = [] if result is None else [(into, result)]
        made += [(f"{into}_error", pa.string()), (f"{into}_error_text", pa.string())]
        taken = [column for column, _ in made if column in self.schema.names]
        if taken:
            raise PlanError(f"{subject}: there is a column '{taken[0]}' already", None, "Name another one by into=.")
        schema = pa.schema([*self.schema, *(pa.field(*column) for column in made)])
        return self._step.add(
            plan.CallNode, "call", name, schema=schema, parallelism=parallelism, called=called, result=result
        ).stream

    def _kind_of(self, subject: str, method: Any) -> str:
        """Returns the name of the class of entities that has a method."""
        entities = self._step.app.entities
        kinds = [each.__name__ for each in entities if getattr(each, method.__name__, None) is method]
        if not kinds:
            names = ", ".join(each.__name__ for each in entities) or "none"
            fix = "Declare its class: App(name, entities=[...])."
            raise PlanError(f"{subject}: no entity of the app has {method.__qualname__}", f"it has {names}", fix)
        if len(kinds) > 1:
            raise PlanError(
                f"{subject}: {method.__qualname__} is a method of several entities",
                ", ".join(kinds),
                "Define it in the class that is meant.",
            )
        return kinds[0]

    def _key_column(self, subject: str, key: str) -> int:
        place = _place(subject, "key", key, self.schema)
        kind = self.schema.types[place]
        if not fits(str, kind) and not fits(int, kind):
            raise PlanError(f"{subject}: column '{key}' cannot be a key", f"it is {kind}", "Use text or whole numbers.")
        return place


def _checked(
    subject: str, title: str, method: Any, given: Mapping[str, str], schema: pa.Schema
) -> tuple[tuple[str, int], ...]:
    """Returns the parameters with the places of their columns."""
    parameters = dict(list(inspect.signature(method).parameters.items())[1:])
    hints = get_type_hints(method, include_extras=True)
    takes_these = f"It takes {', '.join(parameters) or 'nothing'}."
    unknown = [name for name in given if name not in parameters]
    if unknown:
        raise PlanError(f"{subject}: {title} has no parameter '{unknown[0]}'", None, takes_these)
    missing = [name for name, each in parameters.items() if each.default is each.empty and name not in given]
    if missing:
        raise PlanError(f"{subject}: no column is given for '{missing[0]}' of {title}", None, takes_these)
    found = []
    for name, column in given.items():
        place = _place(subject, name, column, schema)
        annotation, kind = hints.get(name, Any), schema.types[place]
        if not fits(annotation, kind):
            raise PlanError(
                f"{subject}: column '{column}' does not fit '{name}' of {title}",
                f"it is {kind}, and the parameter is {inspect.formatannotation(annotation)}",
                f"Cast it in a select before. Columns fit {KNOWN}.",
            )
        found.append((name, place))
    return tuple(found)


def _place(subject: str, parameter: str, column: str, schema: pa.Schema) -> int:
    if column not in schema.names:
        raise PlanError(
            f"{subject}: there is no column '{column}' for '{parameter}'",
            f"the columns are {', '.join(schema.names)}",
            "Compute it in a select before.",
        )
    place: int = schema.names.index(column)
    return place


def _result(subject: str, title: str, method: Any) -> pa.DataType | None:
    """Returns the type of the column with the results; None for a method that returns nothing."""
    hints = get_type_hints(method, include_extras=True)
    annotation = hints.get("return", Any)
    if annotation is type(None):
        return None
    kind = column_of(annotation)
    if kind is None:
        shown = inspect.formatannotation(annotation) if "return" in hints else "not said"
        raise PlanError(
            f"{subject}: the results of {title} cannot be a column",
            f"what it returns is {shown}",
            f"Annotate it with None, or with one of {KNOWN}.",
        )
    return kind
