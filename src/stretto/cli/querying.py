"""`stretto query`: ask a running `stretto run` about its published tables and its state."""

from __future__ import annotations

import datetime
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from stretto.cli.control import AppName, Json, Pid
from stretto.cli.reporting import WRONG_ANSWER, complain, note, print_json, reported
from stretto.errors import ProtocolError, UserError
from stretto.protocol.control import Answered, AskQuery
from stretto.runtime.control_socket import ask, the_driver
from stretto.runtime.questions import time_of

LATE_S = 10.0
"""How long the driver itself may take beyond the timeout."""
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def query(
    text: Annotated[str, typer.Argument(metavar="SELECT", help="The question, in Spark SQL.")],
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds within which everything must answer.")] = 30.0,
    at_least: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Wait until everything up to this event time has come.", show_default=False),
    ] = None,
    app: AppName = None,
    pid: Pid = None,
    json: Json = False,
) -> None:
    """Ask a running `stretto run` a question: a SELECT over tables that its apps publish, or over the state of a
    function (state.Name).

    --json prints rows, as_of (everything with an earlier event time is in the answer), missing, rows_read and workers.
    The exit code is 1 when something could not answer; what it is, and why, is printed."""
    with reported():
        driver = the_driver(app, pid)
        reply = ask(driver.path, AskQuery(text, timeout, _microseconds(at_least)), timeout + LATE_S)
        if not isinstance(reply, Answered):
            raise ProtocolError("the driver answered something else", type(reply).__name__)
        table = pa.ipc.open_stream(pa.py_buffer(reply.rows)).read_all()
        as_of = None if reply.as_of_us is None else time_of(reply.as_of_us).isoformat()
        if json:
            figures: dict[str, Any] = {"as_of": as_of, "missing": reply.missing}
            rows = [{name: _plain(value) for name, value in row.items()} for row in table.to_pylist()]
            print_json({"rows": rows, **figures, "rows_read": reply.rows_read, "workers": reply.workers})
        else:
            Console().print(_shown(table), markup=False)
            note(f"{table.num_rows} rows of {reply.rows_read} read on {reply.workers} workers, as of {as_of or 'now'}")
    for each in reply.missing:
        complain(f"missing: {each}")
    if reply.missing:
        raise typer.Exit(WRONG_ANSWER)


def _microseconds(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise UserError(f"{text!r} is no time", None, "Write it as in 2026-01-31T12:00:00Z.") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    found: int = (moment - _EPOCH) // datetime.timedelta(microseconds=1)
    return found


def _shown(table: pa.Table) -> Table:
    shown = Table(box=SIMPLE_HEAD)
    for field in table.schema:
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)
        shown.add_column(field.name, justify="right" if number else "left")
    for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
        shown.add_row(*("" if value is None else str(value) for value in row))
    return shown


def _plain(value: Any) -> Any:
    """Returns a value that JSON has."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
