"""The API of an app's entities as an OpenAPI document, from the signatures of their methods."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

import msgspec

from stretto.serving.refusals import Why
from stretto.transactions.catalog import KEY_LENGTH_MAX, Catalog
from stretto.transactions.kinds import Kind, Method

_REF = "#/components/schemas/{name}"
_SCALARS = {"string", "integer", "number", "boolean"}
_REFUSALS = ("MALFORMED", "WRONG_ARGUMENTS", "ABORTED", "TOO_LARGE", "FAILED", "UNAVAILABLE", "UNANSWERED")

Schema = dict[str, Any]

_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Of all calls under one key only the first takes place, and all get its reply.",
    "schema": {"type": "string", "minLength": 1, "maxLength": KEY_LENGTH_MAX},
}


class _Schemas:
    """The schemas of types, and those that they refer to."""

    def __init__(self, types: Iterable[Any]) -> None:
        self._types = [kind for kind in types if _has_schema(kind)]
        found, self.components = msgspec.json.schema_components(self._types, ref_template=_REF)
        self._found = found

    def of(self, wanted: Any) -> Schema:
        """Returns the schema of one of the types; of one that JSON schemas cannot express, that of anything."""
        for kind, schema in zip(self._types, self._found, strict=True):
            if kind == wanted:
                return dict(schema)
        return {}


def document_of(app: str, catalog: Catalog, needs_token: bool) -> dict[str, Any]:
    """Returns the OpenAPI document of an app."""
    methods = [method for kind in catalog.kinds() for method in kind.methods.values()]
    schemas = _Schemas([each for method in methods for each in _types_of(method)])
    paths = {
        f"/{kind.name}/{{key}}/{method.name}": _path(kind, method, schemas)
        for kind in catalog.kinds()
        for method in kind.methods.values()
    }
    components: dict[str, Any] = {"schemas": {**schemas.components, "Error": _error_schema()}}
    document = {
        "openapi": "3.1.0",
        "info": {"title": app, "version": version("stretto")},
        "tags": [{"name": kind.name, "description": kind.text} for kind in catalog.kinds()],
        "paths": paths,
        "components": components,
    }
    if needs_token:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
    return document


def _types_of(method: Method) -> list[Any]:
    return [method.result_type, *(field.type for field in msgspec.structs.fields(method.arguments_type))]


def _has_schema(kind: Any) -> bool:
    try:
        msgspec.json.schema(kind)
    except (TypeError, NotImplementedError):
        return False
    return True


def _path(kind: Kind, method: Method, schemas: _Schemas) -> dict[str, Any]:
    key = {"name": "key", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    found: dict[str, Any] = {
        "post": {
            **_operation(kind, method, schemas, "post"),
            "parameters": [key] if method.only_reads else [key, _IDEMPOTENCY_KEY],
            "requestBody": {
                "required": any(field.required for field in msgspec.structs.fields(method.arguments_type)),
                "content": {"application/json": {"schema": _arguments(method, schemas)}},
            },
        }
    }
    if method.only_reads:
        query = [_parameter(field, schemas) for field in msgspec.structs.fields(method.arguments_type)]
        found["get"] = {**_operation(kind, method, schemas, "get"), "parameters": [key, *query]}
    return found


def _operation(kind: Kind, method: Method, schemas: _Schemas, verb: str) -> dict[str, Any]:
    result = {"description": "What the method returned.", "content": _json(schemas.of(method.result_type))}
    refused: dict[str, Any] = {}
    busy = ("BUSY",) if kind.in_flight_max and not method.only_reads else ()
    for name in (*_REFUSALS, *busy):
        why = Why[name]
        refused[str(why.status)] = {"description": why.meaning, "content": _json({"$ref": _REF.format(name="Error")})}
    return {
        "operationId": f"{kind.name}.{method.name}" + (".get" if verb == "get" else ""),
        "tags": [kind.name],
        "summary": method.text.partition("\n")[0] or f"{kind.name}.{method.name}",
        "description": method.text,
        "responses": {"200": result, **refused},
    }


def _arguments(method: Method, schemas: _Schemas) -> Schema:
    fields = msgspec.structs.fields(method.arguments_type)
    return {
        "type": "object",
        "properties": {field.name: _with_default(field, schemas) for field in fields},
        "required": [field.name for field in fields if field.required],
        "additionalProperties": False,
    }


def _with_default(field: Any, schemas: _Schemas) -> Schema:
    schema = schemas.of(field.type)
    default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
    if default is not msgspec.NODEFAULT:
        try:
            schema["default"] = msgspec.to_builtins(default, str_keys=True)
        except (TypeError, ValueError):
            return schema  # It is shown nowhere then.
    return schema


def _parameter(field: Any, schemas: _Schemas) -> dict[str, Any]:
    schema = _with_default(field, schemas)
    found = {"name": field.name, "in": "query", "required": field.required}
    # A value of another type is JSON.
    return {**found, "schema": schema} if schema.get("type") in _SCALARS else {**found, "content": _json(schema)}


def _json(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _error_schema() -> Schema:
    text = {"type": "string"}
    fields = {
        "code": {"type": "string", "enum": [why.code for why in Why if why is not Why.NOT_DONE]},
        "text": text,
        "type": {**text, "description": "After an abort: the class of the exception."},
        "entity": {**text, "description": "After an abort: the entity that raised it."},
    }
    error = {"type": "object", "properties": fields, "required": ["code", "text"]}
    return {"type": "object", "properties": {"error": error}, "required": ["error"]}
