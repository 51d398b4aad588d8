"""`stretto state DIR`: lists the checkpoints in a directory and shows their content."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from stretto.checkpoints.manifest import ActorRecord, Manifest
from stretto.cli.reporting import complain, print_json, reported
from stretto.errors import StorageError
from stretto.runtime.entities.classes import kept_classes
from stretto.runtime.entities.log_files import local_directory
from stretto.runtime.session import local_master, spark_session
from stretto.runtime.state_reader import read_state
from stretto.runtime.storage import store_at


def state(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="Checkpoint directory of an app.")],
    function: Annotated[
        str | None, typer.Option(help="Show the state of this function, or the entities of this class, as rows.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="With --function: maximum number of rows.")] = 20,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """List the complete checkpoints of an app, with the functions and sizes of the last one; or show the state of one
    function, or the entities of one class."""
    if function is not None:
        with reported():
            _show(directory, function, limit, json)
        return
    with reported():
        manifests, wrong = store_at(directory).manifests()
        if not manifests and not wrong:
            raise StorageError(f"there is no checkpoint in {directory}", None, "Check the path.")
        has_entities = bool(manifests) and manifests[-1].entities is not None
        classes = sorted(kept_classes(local_directory(directory))) if has_entities else []
    for reason in wrong:
        complain(reason)
    if json:
        print_json({"checkpoints": [_as_json(manifest) for manifest in manifests], "damaged": wrong})
        return
    console = Console()
    table = Table("checkpoint", "app", "bytes", "bytes written", title="checkpoints", title_justify="left")
    for manifest in manifests:
        table.add_row(str(manifest.checkpoint), manifest.app, f"{manifest.bytes:,}", f"{manifest.bytes_written:,}")
    console.print(table)
    if classes:
        console.print(f"entities: {', '.join(classes)} (--function {classes[0]} shows their rows)", highlight=False)
    elif manifests:
        last = manifests[-1]
        table = Table("function", "partition", "state", "fragments", "bytes", title=f"checkpoint {last.checkpoint}")
        for function, records in last.functions.items():
            for partition, record in enumerate(records):
                for row in _states(record):
                    table.add_row(function, str(partition), *row)
        console.print(table)


def _show(directory: str, function: str, limit: int, json: bool) -> None:
    with spark_session("stretto state", local_master(1)) as spark:
        frame = read_state(spark, directory, function)
        names, rows = frame.columns, [row.asDict(recursive=True) for row in frame.limit(limit).collect()]
    if json:
        print_json({"function": function, "rows": rows})
        return
    table = Table(*names, title=f"{function}: {'the first ' if len(rows) == limit else ''}{len(rows)} rows")
    for row in rows:
        table.add_row(*(_cell(row[name]) for name in names))
    Console().print(table)


def _cell(value: Any) -> str:
    return ", ".join(f"{name}={each}" for name, each in value.items()) if isinstance(value, dict) else str(value)


def _states(record: ActorRecord) -> list[tuple[str, str, str]]:
    if record.plain is None:
        return [("finished", "", "")]
    rows = [("", "", f"{record.plain.bytes:,}")]
    for name, fragments in record.states.items():
        rows.append((name, str(len(fragments)), f"{sum(each.piece.bytes for each in fragments):,}"))
    return rows


def _as_json(manifest: Manifest) -> dict[str, Any]:
    return {
        "checkpoint": manifest.checkpoint,
        "app": manifest.app,
        "bytes": manifest.bytes,
        "bytes_written": manifest.bytes_written,
        "finished": manifest.finished and manifest.entities is None,
        "epoch": None if manifest.entities is None else manifest.entities.epoch,
        "functions": {
            function: [
                {
                    "finished": record.finished,
                    "bytes": sum(piece.bytes for piece in record.pieces()),
                    "states": {name: len(fragments) for name, fragments in record.states.items()},
                }
                for record in records
            ]
            for function, records in manifest.functions.items()
        },
    }
