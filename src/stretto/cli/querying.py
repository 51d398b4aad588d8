"""`stretto query`: ask a running `stretto run` about its published tables and its state."""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from stretto.cli.control import AppName, Json, Pid
from stretto.cli.reporting import WRONG_ANSWER, complain, note, print_json, reported
from stretto.client import connect
from stretto.errors import ProtocolError, UserError
from stretto.protocol.control import Answered, AskQuery
from stretto.queries.answers import Answer, Missing
from stretto.queries.moments import microseconds_of, time_of
from stretto.queries.plain import plain_rows
from stretto.runtime.control_socket import ask, the_driver

LATE_S = 10.0
"""How long the driver itself may take beyond the timeout."""
TOKEN = "STRETTO_TOKEN"
"""The environment variable that has the token of a page."""


def query(
    text: Annotated[str, typer.Argument(metavar="SELECT", help="The question, in Spark SQL.")],
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds within which everything must answer.")] = 30.0,
    at_least: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Wait until everything up to this event time has come.", show_default=False),
    ] = None,
    app: AppName = None,
    pid: Pid = None,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Ask the page of a cluster, also on another machine.", show_default=False),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"The page's token is in this file, not in {TOKEN}.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Ask a running `stretto run` a question: a SELECT over tables that its apps publish, or over the state of a
    function (state.Name).

    It is found by --app or --pid if it is of this user on this machine. With --url it is asked over HTTP; its token is
    in the environment variable STRETTO_TOKEN or in a file, since others can see arguments.

    --json prints rows, as_of (everything with an earlier event time is in the answer), missing, rows_read and workers.
    The exit code is 1 when something could not answer; what it is, and why, is printed."""
    with reported():
        least = _time(at_least)
        if url is None:
            answer = _of_driver(the_driver(app, pid).path, text, timeout, least)
        else:
            if app is not None or pid is not None:
                raise UserError("--url names the cluster already", None, "Leave out --app and --pid.")
            answer = connect(_without_token(url), _token(token_file)).ask(text, timeout=timeout, at_least=least)
        missing = [str(each) for each in answer.missing]
        as_of = None if answer.as_of_us is None else time_of(answer.as_of_us).isoformat()
        if json:
            figures: dict[str, Any] = {"as_of": as_of, "missing": missing}
            rows = [dict(zip(answer.table.column_names, row, strict=True)) for row in plain_rows(answer.table)]
            print_json({"rows": rows, **figures, "rows_read": answer.rows_read, "workers": answer.workers})
        else:
            Console().print(_shown(answer.table), markup=False)
            count = answer.table.num_rows
            note(f"{count} rows of {answer.rows_read} read on {answer.workers} workers, as of {as_of or 'now'}")
    for each in missing:
        complain(f"missing: {each}")
    if missing:
        raise typer.Exit(WRONG_ANSWER)


def _of_driver(path: Path, text: str, timeout: float, at_least: datetime.datetime | None) -> Answer:
    """Returns the answer of a driver on this machine."""
    least_us = None if at_least is None else microseconds_of(at_least)
    reply = ask(path, AskQuery(text, timeout, least_us), timeout + LATE_S)
    if not isinstance(reply, Answered):
        raise ProtocolError("the driver answered something else", type(reply).__name__)
    table = pa.ipc.open_stream(pa.py_buffer(reply.rows)).read_all()
    missing = tuple(Missing(*each.partition(": ")[::2]) for each in reply.missing)
    return Answer(table, reply.as_of_us, missing, reply.rows_read, reply.workers)


def _without_token(url: str) -> str:
    if "#" in url:
        raise UserError(
            "the address has a token in it",
            "others can see it among the arguments of processes",
            f"Set {TOKEN}, or write it to a file: --token-file FILE.",
        )
    return url


def _token(file: Path | None) -> str | None:
    """Returns the token of a page, as it was given out of sight."""
    if file is None:
        return os.environ.get(TOKEN)
    try:
        return file.read_text("ascii").strip()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a text in ASCII"
        raise UserError(f"the token cannot be read from {file}", why) from None


def _time(text: str | None) -> datetime.datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise UserError(f"{text!r} is no time", None, "Write it as in 2026-01-31T12:00:00Z.") from None
    return moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment


def _shown(table: pa.Table) -> Table:
    shown = Table(box=SIMPLE_HEAD)
    for field in table.schema:
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)
        shown.add_column(field.name, justify="right" if number else "left")
    for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
        shown.add_row(*("" if value is None else str(value) for value in row))
    return shown
