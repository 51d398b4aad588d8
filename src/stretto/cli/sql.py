"""`stretto sql`: a script or a prompt. Scripts run as one app; at the prompt each query is an app on one cluster."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer
from rich.console import Console

from stretto.api.app import App
from stretto.api.engines import Engine
from stretto.cli.options import Json, Workers
from stretto.cli.reporting import complain, note, reported
from stretto.cli.running import RunRequest, rows_table, run_loaded
from stretto.cli.sql_session import Said, Session
from stretto.errors import UserError
from stretto.formats import FORMATS
from stretto.runtime.cluster import Cluster
from stretto.runtime.session import local_master, spark_session
from stretto.sql import Compiled, compiled

SQL_EXAMPLES = (
    "Examples:  [bold]stretto sql counts.sql[/]   "
    '[bold]stretto sql -e "SELECT 1 + n AS m FROM STREAM numbers"[/]   [bold]stretto sql[/]'
)

File = Annotated[Path | None, typer.Argument(metavar="[FILE]", help="A file of statements.", show_default=False)]
Text = Annotated[
    str | None, typer.Option("-e", "--execute", metavar="SQL", help="Statements to run.", show_default=False)
]
OnEngine = Annotated[Engine | None, typer.Option(help="Engine to run on.", show_default=False)]
Master = Annotated[str | None, typer.Option(help="Spark master URL; by default a local Spark with two spare slots.")]
Timeout = Annotated[float | None, typer.Option(min=0, help="Stop the sources after this many seconds.")]
Limit = Annotated[int, typer.Option(min=0, help="Maximum number of rows to print per result.")]
Checkpoint = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Store checkpoints here; resume from the last.", show_default=False),
]
Every = Annotated[str, typer.Option(metavar="TIME", help="Interval between checkpoints.")]


def sql(
    file: File = None,
    text: Text = None,
    workers: Workers = 2,
    engine: OnEngine = None,
    master: Master = None,
    timeout: Timeout = None,
    rows: Limit = 20,
    checkpoint: Checkpoint = None,
    every: Every = "10 s",
    json: Json = False,
) -> None:
    """Run SQL statements on streams: from a file, from -e, from stdin, or at a prompt on a terminal.

    CREATE declares tables, INSERT and SELECT end in sinks; all statements of a text are one app. The rows of SELECT
    and of tables USING collect are printed at the end. EXPLAIN prints the plan and runs nothing. State that grows
    without bound is told of on stderr. At the prompt, each query runs at once, and Ctrl-C stops it."""
    with reported():
        if file is not None and text is not None:
            raise UserError("there are two texts", f"{file} and -e", "Give one of them.")
        if file is None and text is None and sys.stdin.isatty():
            prompt(workers, master, rows, timeout)
            return
        chosen = engine.value if engine else None
        request = RunRequest("sql", workers, chosen, master, json, timeout, rows, "llf", "reject")
        run_text(_text(file, text), replace(request, checkpoint=checkpoint, every=every))


def _text(file: Path | None, text: str | None) -> str:
    if text is not None:
        return text
    if file is None:
        return sys.stdin.read()
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the file {file} cannot be read", str(error)) from error


def run_text(text: str, request: RunRequest) -> None:
    """Run all statements of a text as one app, or explain it."""
    app = App("sql")
    done: Compiled = compiled(app, text, FORMATS)
    if done.explains:
        typer.echo(app.explain(workers=request.workers))
        _print_advice(tuple(app.advice()))
        return
    app.plan()
    _print_advice(tuple(app.advice()))
    run_loaded(app, request)


def _print_advice(advice: tuple[str, ...]) -> None:
    for text in advice:
        note(f"advice: {text}")


# At the prompt.


def prompt(workers: int, master: str | None, rows: int, timeout_s: float | None) -> None:
    """Read statements from the terminal; Spark starts with the first query."""
    from stretto.cli.sql_prompt import history_file, prompted

    console = Console()
    with ExitStack() as stack:
        cluster = _Lazily(stack, workers, master)
        session = Session(FORMATS, lambda app: cluster.run(app, timeout_s), workers)
        console.print('stretto sql: statements end with ";", and "help" says more.', highlight=False)
        prompted(session, partial(print_said, console=console, rows=rows), complain, history_file())


class _Lazily:
    """A cluster that starts when the first app runs, and ends with the prompt."""

    def __init__(self, stack: ExitStack, workers: int, master: str | None) -> None:
        self._stack = stack
        self._workers = workers
        self._master = master or local_master(workers)
        self._cluster: Cluster | None = None

    def run(self, app: App, timeout_s: float | None) -> Mapping[str, pa.Table]:
        """Returns the results of an app; Ctrl-C and the timeout end it with what it has."""
        if self._cluster is None:
            note(f"Starting Spark ({self._master}) with {self._workers} workers in its tasks ...")
            spark = self._stack.enter_context(spark_session("stretto-sql", self._master))
            self._cluster = self._stack.enter_context(Cluster.on_spark(spark, workers=self._workers))
        job = self._cluster.submit(app)
        try:
            job.wait(timeout_s)
        except (KeyboardInterrupt, TimeoutError):
            note("Stopping the query ...")
            job.stop(timeout=10.0)
        return {node.name: job.results(node.name) for node in job.plan.sinks if node.sink.collects}


def print_said(said: Said, console: Console, rows: int) -> None:
    """Print what a session has answered."""
    if said.text:
        console.print(said.text.rstrip(), highlight=False, markup=False, soft_wrap=True)
    for name, table in said.tables.items():
        console.print(rows_table(name, table, rows))
    _print_advice(said.advice)
