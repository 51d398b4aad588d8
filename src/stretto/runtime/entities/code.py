"""Classes of entities on their way to the workers, with the types in their annotations.

Annotations may be texts (`from __future__ import annotations`), and what they name may be in a module that only the
driver has: pickling a class takes along what its code refers to, not what its annotations name. So the types are
resolved here, and travel beside the classes.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_type_hints

import pyarrow as pa

from stretto.errors import UserError
from stretto.operators.row_codec import RowCodec
from stretto.rendering import error_text
from stretto.transactions.catalog import Catalog
from stretto.transactions.entity import Entity


@dataclass
class EntityCode:
    """The entities of a job, and for each of them the types of its fields and of its methods."""

    job: str
    entities: list[type[Entity]]
    fields: list[dict[str, Any]] = field(default_factory=list)
    methods: list[dict[str, dict[str, Any]]] = field(default_factory=list)
    functions: Mapping[str, Any] = field(default_factory=dict)
    """None: these are the functions of streams."""
    streams: dict[str, pa.Schema] = field(default_factory=dict)
    """The columns of the streams that they emit rows into."""

    @staticmethod
    def of(job: str, entities: Iterable[type[Entity]], streams: Mapping[str, pa.Schema]) -> EntityCode:
        code = EntityCode(job, list(entities), streams=dict(streams))
        for each in code.entities:
            try:
                code.fields.append(get_type_hints(each, include_extras=True))
                code.methods.append(
                    {name: get_type_hints(found, include_extras=True) for name, found in _methods(each)}
                )
            except NameError as error:
                raise UserError(
                    f"an annotation of {each.__name__} names something that does not exist", error_text(error)
                ) from error
        return code

    def catalog(self) -> Catalog:
        """Returns the entities as the machine needs them, on a worker."""
        for each, fields, methods in zip(self.entities, self.fields, self.methods, strict=True):
            for base in _own_classes(each):
                own = vars(base).get("__annotations__", {})
                base.__annotations__ = {name: fields.get(name, hint) for name, hint in own.items()}
            for name, function in _methods(each):
                function.__annotations__ = methods[name]
        return self.own_catalog()

    def own_catalog(self) -> Catalog:
        """Returns them as the driver needs them, where the annotations are as they were written."""
        return Catalog(self.entities, {name: RowCodec(name, columns) for name, columns in self.streams.items()})

    def modules(self) -> set[str]:
        """Returns the modules that define the entities."""
        return {base.__module__ for each in self.entities for base in _own_classes(each)}


def _methods(entity: type[Entity]) -> list[tuple[str, Any]]:
    return inspect.getmembers(entity, inspect.iscoroutinefunction)


def _own_classes(entity: type[Entity]) -> list[type]:
    return [base for base in entity.__mro__ if base not in (object, Entity)]
