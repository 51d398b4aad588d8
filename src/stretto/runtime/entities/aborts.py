"""The exception that a caller gets for a transaction that was aborted: of the class that the handler raised, if it is
one that the entities' own modules, Python or stretto define.

A failure arrives as names and plain data. Nothing is unpickled, and no module is imported for it.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Collection
from typing import Any

import msgspec

from stretto import errors
from stretto.errors import AbortedError
from stretto.protocol.transactions import Failure

_ARGUMENTS = msgspec.msgpack.Decoder(list[Any])


def exception_of(failure: Failure, modules: Collection[str]) -> Exception:
    """Returns what to raise at the caller. `modules` are those of the job's entities."""
    error = _same(failure, modules)
    if error is None:
        return AbortedError(f"the transaction was aborted: {failure.entity} raised {failure.kind}", failure.text)
    error.add_note(f"The transaction was aborted by {failure.entity}.")
    return error


def _same(failure: Failure, modules: Collection[str]) -> Exception | None:
    """Returns an exception like the one that was raised, unless it cannot be made of plain data."""
    found: Any = None
    if failure.module == errors.__name__:
        found = errors
    elif failure.module == builtins.__name__:
        found = builtins
    elif failure.module in modules:
        found = sys.modules.get(failure.module)
    for name in failure.kind.split("."):
        found = getattr(found, name, None)
    if not (isinstance(found, type) and issubclass(found, Exception)) or failure.arguments is None:
        return None
    try:
        made = found(*_ARGUMENTS.decode(failure.arguments))
    except Exception:
        return None  # Its constructor takes something else than what it passes on.
    return made if isinstance(made, Exception) else None
