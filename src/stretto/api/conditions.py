"""The condition of a join: which expressions of both inputs must be equal, and what else must hold for a pair of rows.

A condition is a conjunction. An equality with one side over the left columns and the other over the right ones is a
key: rows are partitioned and looked up by it. The rest is the residual, which is evaluated on pairs of rows. In an
equality, a name that both inputs have is read as left = right; elsewhere it must be qualified.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from stretto.actors.partitioning import hash_array
from stretto.errors import ExpressionError, PlanError
from stretto.expressions import Predicate, Scalar, compile_predicate, compile_value, types
from stretto.expressions.scalar import quoted
from stretto.expressions.splitting import Reference, conjuncts, equality, is_name, references, with_columns_named
from stretto.operators.join_keys import key_family

JoinOn = str | Sequence[str | tuple[str, str]]


@dataclass(frozen=True)
class Condition:
    """Keys are pairs of expressions, one over each input, of types whose equal values have equal hashes."""

    keys: tuple[tuple[Scalar, Scalar], ...]
    residual: Predicate | None


@dataclass(frozen=True)
class JoinInputs:
    """Both inputs of a join, and the columns of a pair of rows: the left ones, then the right ones under new names."""

    left: str
    left_schema: pa.Schema
    right: str
    right_schema: pa.Schema
    pair: pa.Schema

    def condition(self, on: JoinOn, where: str | None) -> Condition:
        """Returns the condition of a join with this `on` and, besides, this `where`."""
        keys, rest = self._read(on)
        rest += [] if where is None else conjuncts(where, "the condition of a join")
        residual = " AND ".join(f"({self._residual(text)})" for text in rest)
        if not keys:
            raise PlanError(
                f"join of '{self.left}' and '{self.right}' has no key",
                f"{on!r} has no equality of a left and a right expression",
                'Add one, such as "left_column = right_column"; a range of times is interval_join.',
            )
        return Condition(tuple(keys), compile_predicate(residual, self.pair) if rest else None)

    def _read(self, on: JoinOn) -> tuple[list[tuple[Scalar, Scalar]], list[str]]:
        if not isinstance(on, str):
            return [self._key(*((item, item) if isinstance(item, str) else item)) for item in on], []
        parts = conjuncts(on, "the condition of a join")
        if len(parts) == 1 and is_name(on):
            return [self._key(on, on)], []
        keys, rest = [], []
        for text in parts:
            sides = self._sides(text)
            if sides is None:
                rest.append(text)
            else:
                keys.append(self._key(*sides))
        return keys, rest

    def _sides(self, text: str) -> tuple[str, str] | None:
        """Returns the left and the right expression of an equality that is a key; None if it is none."""
        sides = equality(text)
        if sides is None:
            return None
        for left, right in (sides, sides[::-1]):
            if self._is_over(left, 0) and self._is_over(right, 1):
                return left, right
        return None

    def _is_over(self, text: str, side: int) -> bool:
        """Whether an expression names columns, and all of them can be read from this input."""
        named = references(text)
        return bool(named) and all(side in self._found(reference) for reference in named)

    def _key(self, left: str, right: str) -> tuple[Scalar, Scalar]:
        one = self._of_side(left, 0)
        other = self._of_side(right, 1)
        for scalar in (one, other):
            hash_array(pa.array([], scalar.type))  # Raises for types that cannot be keys.
        if _hash_alike(one.type, other.type):
            return one, other
        common = _common(one.type, other.type)
        if common is None:
            raise PlanError(
                f"join of '{self.left}' and '{self.right}': the keys have different types",
                f"{left.strip()} is {one.type}, {right.strip()} is {other.type}",
                "Cast one of them.",
            )
        return _cast(one, common), _cast(other, common)

    def _of_side(self, text: str, side: int) -> Scalar:
        """Returns a key's expression, compiled over one input."""
        schema = (self.left_schema, self.right_schema)[side]

        def named(reference: Reference) -> tuple[str, int]:
            found = self._found(reference)
            return found[side] if side in found else (reference.parts[0], 1)

        return compile_value(with_columns_named(text, named), schema, "a key")

    def _residual(self, text: str) -> str:
        """Returns the text with the names that the columns of a pair have."""
        for reference in references(text):
            if not self._found(reference) and _column(reference.parts[0], self.pair) is None:
                raise self._unknown(reference, text)
        return with_columns_named(text, lambda reference: self._in_pair(reference, text))

    def _in_pair(self, reference: Reference, text: str) -> tuple[str, int]:
        found = self._found(reference)
        if not found:
            return reference.parts[0], 1  # A bound of the window.
        if len(found) == 2:
            right = self._pair_name(found[1][0])
            raise PlanError(
                f"join of '{self.left}' and '{self.right}': column '{'.'.join(reference.parts)}' is in both",
                f"in the condition {text!r}",
                f"Write left.{_written(found[0][0])}, or right.{_written(found[1][0])} or {right}.",
            )
        ((side, (column, parts)),) = found.items()
        return (column if side == 0 else self._pair_name(column)), parts

    def _pair_name(self, column: str) -> str:
        name: str = self.pair.names[len(self.left_schema) + self.right_schema.get_field_index(column)]
        return name

    def _found(self, reference: Reference) -> dict[int, tuple[str, int]]:
        """Returns the column that a reference names in each input (0 is left), and how many parts name it."""
        schemas = (self.left_schema, self.right_schema)
        qualifiers = (("left", self.left.lower()), ("right", self.right.lower()))
        found = {}
        if len(reference.parts) > 1:
            for side, schema in enumerate(schemas):
                column = _column(reference.parts[1], schema)
                if column is not None and reference.parts[0].lower() in qualifiers[side]:
                    found[side] = (column, 2)
        if found:
            return found
        for side, schema in enumerate(schemas):
            column = _column(reference.parts[0], schema)
            if column is not None:
                found[side] = (column, 1)
        renamed = self.pair.names[len(self.left_schema) : len(self.left_schema) + len(self.right_schema)]
        for name, column in zip(renamed, self.right_schema.names, strict=True):
            if not found and name.lower() == reference.parts[0].lower():
                found[1] = (column, 1)
        return found

    def _unknown(self, reference: Reference, text: str) -> ExpressionError:
        return ExpressionError(
            f"unknown column {'.'.join(reference.parts)!r}",
            f"in the condition {text!r}; '{self.left}' has {', '.join(self.left_schema.names)}; "
            f"'{self.right}' has {', '.join(self.right_schema.names)}",
            "use one of those, as left.column or right.column if both have it",
        )


def _written(name: str) -> str:
    return name if name.isidentifier() else quoted(name)


def _column(name: str, schema: pa.Schema) -> str | None:
    """Returns the column of this name; case does not matter. Of several, the one in this very case."""
    matches = [column for column in schema.names if column.lower() == name.lower()]
    return name if name in matches else matches[0] if matches else None


def _hash_alike(left: pa.DataType, right: pa.DataType) -> bool:
    """Whether equal values of these types have equal hashes, and can be compared as they are."""
    return left == right or (key_family(left) == key_family(right) and not pa.types.is_decimal(left))


def _common(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Returns the type in which Spark compares values of these types; None if it does not, or loses digits."""
    one, other = types.canonical(left), types.canonical(right)
    if types.STRING in (one, other):
        return types.beside_string(other if one == types.STRING else one)
    common = types.wider(one, other)
    if common is not None and types.is_decimal(common):
        scale, digits = common.scale, common.precision - common.scale
        sides = [types.as_decimal(kind) for kind in (one, other)]
        if any(side.scale > scale or side.precision - side.scale > digits for side in sides):
            return None
    return common


def _cast(key: Scalar, kind: pa.DataType) -> Scalar:
    if key.type == kind:
        return key
    return compile_value(f"CAST({key.sql} AS {types.spark_type_name(kind)})", key.schema, "a key")
