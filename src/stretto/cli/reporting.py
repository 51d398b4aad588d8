"""How a command ends: errors as one message and not as a traceback, Ctrl-C as a stop, both with their exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from stretto.errors import StrettoError

WRONG_ANSWER, ERROR, INTERRUPTED = 1, 2, 130
"""Exit codes; 0 is for success."""

errors = Console(stderr=True)


@contextmanager
def reported() -> Iterator[None]:
    """Turn an error that was raised on purpose into its message and exit code 2."""
    try:
        yield
    except StrettoError as error:
        fail(str(error))
    except KeyboardInterrupt:
        complain("interrupted: everything that was started has been stopped")
        raise typer.Exit(INTERRUPTED) from None


def fail(message: str) -> NoReturn:
    complain(f"error: {message}")
    raise typer.Exit(ERROR) from None


def complain(message: str) -> None:
    """Say something on stderr, as it is."""
    errors.print(message, style="red", markup=False, highlight=False, soft_wrap=True)


def note(message: str) -> None:
    """Say on stderr what is going on."""
    errors.print(message, markup=False, highlight=False, soft_wrap=True)


def print_json(line: Mapping[str, Any]) -> None:
    """One JSON object on one line of stdout."""
    print(json.dumps(line, default=str), flush=True)


def print_figures(found: Mapping[str, Any]) -> None:
    """Figures for people, a line each."""
    table = Table(show_header=False)
    for name, value in found.items():
        table.add_row(name.replace("_", " "), str(value))
    Console().print(table)
