"""Arguments of a method from a request, checked by their types: a JSON object, or the parameters of a query."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

import msgspec

from stretto.errors import UserError
from stretto.serving.refusals import Refused, Why
from stretto.transactions.kinds import ARGUMENTS_BYTES_MAX, Method

_UNREADABLE = (UnicodeDecodeError, RecursionError)
"""What the decoder raises besides its own errors."""


class ArgumentReader:
    """Reads the arguments of one method, and returns them as they are sent to workers."""

    def __init__(self, method: Method) -> None:
        self._method = method
        self._decoder = msgspec.json.Decoder(method.arguments_type)
        self._types = {field.name: field.type for field in msgspec.structs.fields(method.arguments_type)}

    def of_body(self, body: bytes) -> bytes:
        """Reads a JSON object, `{"to": "bob", "amount": 10}`. No body is an empty object."""
        try:
            given = self._decoder.decode(body or b"{}")
        except msgspec.ValidationError as error:
            raise self._misfit(error) from error
        except (msgspec.DecodeError, *_UNREADABLE) as error:
            raise Refused(Why.MALFORMED, f"the body is not a JSON object: {error}") from error
        return self._encoded(given)

    def of_query(self, query: bytes) -> bytes:
        """Reads `to=bob&amount=10`. A value is a text if the type of the parameter has texts, or is written as one,
        such as a time; others are JSON."""
        try:
            text = query.decode("ascii")
            pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), errors="strict")
        except ValueError as error:
            raise Refused(Why.MALFORMED, f"the query cannot be read: {error}") from error
        given: dict[str, Any] = {}
        for name, value in pairs:
            if name in given:
                raise Refused(Why.WRONG_ARGUMENTS, f"the parameter '{name}' is given twice")
            if name not in self._types:
                raise self._misfit(msgspec.ValidationError(f"Object contains unknown field `{name}`"))
            given[name] = self._value(name, value)
        return self._encoded(given)

    def _value(self, name: str, text: str) -> Any:
        try:
            return msgspec.convert(text, self._types[name])
        except msgspec.ValidationError as error:
            try:
                return msgspec.json.decode(text, type=self._types[name])
            except (msgspec.DecodeError, *_UNREADABLE):
                raise self._misfit(msgspec.ValidationError(f"{error} - at `{name}`")) from error

    def _encoded(self, given: Any) -> bytes:
        try:
            encoded = self._method.encode_all(given)
        except UserError as error:
            raise Refused(Why.WRONG_ARGUMENTS, str(error)) from error
        if len(encoded) > ARGUMENTS_BYTES_MAX:
            raise Refused(Why.TOO_LARGE, f"the arguments have {len(encoded):,} of {ARGUMENTS_BYTES_MAX:,} bytes")
        return encoded

    def _misfit(self, error: Exception) -> Refused:
        return Refused(Why.WRONG_ARGUMENTS, str(self._method.misfit(error)))
