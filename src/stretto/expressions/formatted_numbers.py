"""Functions of numbers and texts by a format: to_number, try_to_number, to_char."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa

from stretto.expressions import types
from stretto.expressions.arguments import text
from stretto.expressions.casts import cast
from stretto.expressions.encodings import decode, to_base64
from stretto.expressions.formatted_times import date_format
from stretto.expressions.nodes import Node, Site, constant_argument, null
from stretto.expressions.number_formats import BadFormat, NumberFormat, number_format
from stretto.expressions.number_forms import TooLarge, number_of, text_of
from stretto.expressions.radix import hex_text
from stretto.expressions.registry import fixed, with_aliases
from stretto.expressions.rows import by_rows

_UNKNOWN = pa.decimal128(10, 0)
"""The type of a number by a format that is NULL."""
_AS_DECIMAL = {
    types.FLOAT: pa.decimal128(14, 7),
    types.DOUBLE: pa.decimal128(30, 15),
    types.STRING: pa.decimal128(38, 18),
    types.NULL: _UNKNOWN,
}
_OF_BYTES: dict[str, Callable[[Site, Node, Node], Node]] = {
    "base64": lambda site, node, form: to_base64(site, node),
    "hex": lambda site, node, form: hex_text(site, node),
    "utf-8": decode,
}


def _format(node: Node, site: Site) -> NumberFormat | None:
    """Returns a constant format, None for NULL."""
    form = constant_argument(text(node, site), types.STRING, "the format")
    if form is None:
        return None
    try:
        return number_format(form)
    except BadFormat as error:
        raise site.error(f"{form!r} is no format of numbers", str(error), "write one such as 'S999,990.00'") from None


def to_number(site: Site, node: Node, form: Node, strictly: bool = True) -> Node:
    """Returns the number that a text is by a format; null, or an error, for a text that does not fit."""
    subject, wanted = text(node, site), _format(form, site)
    if wanted is None:
        return null(_UNKNOWN, site)
    precision = wanted.before + wanted.after
    if precision > types.DECIMAL_DIGITS_MAX:
        raise site.error(f"{precision} digits", f"a decimal has at most {types.DECIMAL_DIGITS_MAX}", "use fewer")
    kind = pa.decimal128(precision, wanted.after)

    def of_row(value: str) -> Decimal | None:
        try:
            found = number_of(value, wanted)
        except TooLarge:
            name = types.spark_type_name(kind)
            raise site.error(f"{value!r} does not fit {name}", None, "use a format with more digits") from None
        if found is None and strictly:
            raise site.error(f"{value!r} does not fit the format {wanted.text!r}", None, "use try_to_number for NULL")
        return found

    return by_rows(kind, of_row, site, (subject,), fallible=True)


def try_to_number(site: Site, node: Node, form: Node) -> Node:
    return to_number(site, node, form, strictly=False)


def to_char(site: Site, node: Node, form: Node) -> Node:
    """Returns a number as a text by a format, a time by a pattern, and bytes in base64, hex or utf-8."""
    if types.is_temporal(node.type):
        return date_format(site, node, form)
    if node.type == types.BINARY:
        return _of_bytes(site, node, form)
    if node.type not in (types.STRING, types.NULL) and not types.is_numeric(node.type):
        raise site.wrong_type("a number, a time or binary", node.type)
    kind = _AS_DECIMAL.get(node.type) or types.as_decimal(node.type)
    number, wanted = cast(node, kind, site), _format(form, site)
    if wanted is None:
        return null(types.STRING, site)
    return by_rows(types.STRING, lambda value: text_of(value, wanted), site, (number,))


def _of_bytes(site: Site, node: Node, form: Node) -> Node:
    name = constant_argument(form, types.STRING, "the format")
    made = None if name is None else _OF_BYTES.get(name.lower().strip())
    if made is None:
        raise site.error(f"the format {name!r} of binary", None, "use 'base64', 'hex' or 'utf-8'")
    return made(site, node, form)


FUNCTIONS = with_aliases(
    {
        "to_number": fixed(to_number, 2),
        "try_to_number": fixed(try_to_number, 2),
        "to_char": fixed(to_char, 2),
    },
    to_varchar="to_char",
)
