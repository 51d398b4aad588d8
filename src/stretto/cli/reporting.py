"""Ends a command: prints an error as a message instead of a traceback, handles Ctrl-C, and sets the exit code."""

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
"""Exit codes; 0 is success."""

errors = Console(stderr=True)


@contextmanager
def reported() -> Iterator[None]:
    """Print a StrettoError as a message and exit with code 2; exit with code 130 on Ctrl-C."""
    try:
        yield
    except StrettoError as error:
        fail(str(error))
    except KeyboardInterrupt:
        complain("interrupted: all started processes have been stopped")
        raise typer.Exit(INTERRUPTED) from None


def fail(message: str) -> NoReturn:
    complain(f"error: {message}")
    raise typer.Exit(ERROR) from None


def complain(message: str) -> None:
    """Print a problem on stderr, in red."""
    errors.print(message, style="red", markup=False, highlight=False, soft_wrap=True)


def note(message: str) -> None:
    """Print progress on stderr."""
    errors.print(message, markup=False, highlight=False, soft_wrap=True)


def print_json(line: Mapping[str, Any]) -> None:
    """Print one JSON object on one line of stdout."""
    print(json.dumps(line, default=str), flush=True)


def print_figures(found: Mapping[str, Any]) -> None:
    """Print figures as a table, one per line."""
    table = Table(show_header=False)
    for name, value in found.items():
        table.add_row(name.replace("_", " "), str(value))
    Console().print(table)
