"""Verbs that change some columns and keep the rest, as the list of a select."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from stretto.errors import PlanError
from stretto.expressions import compile_scalar
from stretto.expressions.parse import parse
from stretto.expressions.projection import column_sql
from stretto.expressions.scalar import quoted


def with_columns(subject: str, schema: pa.Schema, changes: Mapping[str, str]) -> list[str]:
    """Returns all columns, some of them replaced where they are, and new ones at the end. All expressions are over the
    columns as they were."""
    if not changes:
        raise PlanError(f"{subject} changes no column", None, 'Name one: with_column("twice", "2 * price").')
    texts = {name: f"{column_sql(text, schema)} AS {quoted(name)}" for name, text in changes.items()}
    return _replaced(subject, schema, texts)


def without(subject: str, schema: pa.Schema, names: Sequence[str]) -> list[str]:
    """Returns all columns but these."""
    dropped = {_stored(name, schema) for name in names}
    if not dropped:
        raise PlanError(f"{subject} names no column", None, "Name at least one.")
    kept = [name for name in schema.names if name not in dropped]
    if not kept:
        raise PlanError(f"{subject} leaves no column", f"columns: {', '.join(schema.names)}", "Keep at least one.")
    return list(map(quoted, kept))


def renamed(subject: str, schema: pa.Schema, names: Mapping[str, str]) -> list[str]:
    """Returns all columns, some of them under new names."""
    if not names:
        raise PlanError(f"{subject} renames no column", None, 'Write rename({"old": "new"}).')
    new = {_stored(name, schema): wanted for name, wanted in names.items()}
    return [f"{quoted(name)} AS {quoted(new.get(name, name))}" for name in schema.names]


def star_replaced(subject: str, schema: pa.Schema, texts: Sequence[str]) -> list[str]:
    """Returns a select list in which a column of `*` is replaced by the expression that has its name as an alias."""
    stars = [place for place, text in enumerate(texts) if text.strip() == "*"]
    if not stars:
        return list(texts)
    known = {name.lower() for name in schema.names}
    aliases = {text: alias for text in texts if (alias := parse(text).alias) and alias.lower() in known}
    if not aliases:
        return list(texts)
    columns = _replaced(subject, schema, {alias: text for text, alias in aliases.items()})
    kept = [[text] for text in texts]
    kept[stars[0]] = columns
    return [text for group, given in zip(kept, texts, strict=True) if given not in aliases for text in group]


def flat(columns: Sequence[str | Sequence[str]]) -> list[str]:
    """Returns the names of columns that are given one by one or in lists."""
    return [name for given in columns for name in ([given] if isinstance(given, str) else given)]


def _replaced(subject: str, schema: pa.Schema, texts: Mapping[str, str]) -> list[str]:
    places = {name.lower(): name for name in schema.names}
    by_place: dict[str, str] = {}
    for name, text in texts.items():
        place = places.get(name.lower(), name.lower())
        if place in by_place:
            raise PlanError(f"{subject} sets column '{name}' twice", None, "Case does not matter in names of columns.")
        by_place[place] = text
    columns = [by_place.pop(name, quoted(name)) for name in schema.names]
    return [*columns, *by_place.values()]


def _stored(name: str, schema: pa.Schema) -> str:
    """Returns the name that the schema has for a column; case does not matter."""
    return compile_scalar(quoted(name), schema).column or name
