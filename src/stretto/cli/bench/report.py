"""`stretto bench report`: turns the JSON of `stretto bench compare` into one HTML page."""

from __future__ import annotations

import json as json_format
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from stretto.bench.compare.report import page, runs
from stretto.cli.reporting import print_json, reported
from stretto.errors import UserError

HOW_TO_MAKE_ONE = "Make one with: stretto bench compare --query q7 --json > q7.json"


def report(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="JSON of `stretto bench compare`: an object, an array of objects, or one object per line.",
            show_default=False,
        ),
    ],
    output: Annotated[Path, typer.Option(metavar="FILE", help="File to write the page to.")] = Path("report.html"),
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Make one HTML page, with plots, from the results of `stretto bench compare`.

    The page is a single file that needs no network. It shows all queries of all files; a query that was run more than
    once appears once per run, with the name of its file. Prints the path of the page."""
    with reported():
        found = [comparison for path in files for comparison in comparisons(path)]
        text = page(found)
        _write(output, text, files)
    if json:
        queries = [run.label for run in runs(found)]
        print_json({"page": str(output), "queries": queries, "bytes": len(text.encode("utf-8"))})
    else:
        typer.echo(output)


def comparisons(path: Path) -> list[Mapping[str, Any]]:
    """Returns the comparisons in a file, each with the name of the file; raises UserError if the file is invalid."""
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise UserError(f"cannot read '{path}'", error.strerror, HOW_TO_MAKE_ONE) from error
    except UnicodeDecodeError as error:
        raise UserError(f"'{path}' is not JSON", "it is not UTF-8 text", HOW_TO_MAKE_ONE) from error
    found = _parsed(path, text)
    if not found:
        raise UserError(f"'{path}' holds no comparison", "it is empty", HOW_TO_MAKE_ONE)
    for number, value in enumerate(found, start=1):
        fault = _fault(value)
        if fault:
            which = f"'{path}'" if len(found) == 1 else f"value {number} of '{path}'"
            raise UserError(f"{which} is not a comparison", fault, HOW_TO_MAKE_ONE)
    return [{**value, "file": str(path)} for value in found]


def _parsed(path: Path, text: str) -> list[Any]:
    """Returns all values of a file, which are in an array, one per line, or alone."""
    try:
        value = json_format.loads(text) if text.strip() else []
    except json_format.JSONDecodeError as error:
        lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
        if len(lines) < 2 or not _is_json(lines[0][1]):
            detail = f"line {error.lineno}, column {error.colno}: {error.msg}"
            raise UserError(f"'{path}' is not JSON", detail, HOW_TO_MAKE_ONE) from error
        return [_line(path, number, line) for number, line in lines]
    return value if isinstance(value, list) else [value]


def _line(path: Path, number: int, line: str) -> Any:
    try:
        return json_format.loads(line)
    except json_format.JSONDecodeError as error:
        fix = "The run that wrote it may have been interrupted: remove the line, or repeat the run."
        raise UserError(f"line {number} of '{path}' is not JSON", f"column {error.colno}: {error.msg}", fix) from error


def _is_json(line: str) -> bool:
    try:
        json_format.loads(line)
    except json_format.JSONDecodeError:
        return False
    return True


def _fault(value: object) -> str | None:
    """Returns why a value is not a comparison, or None. The page shows a dash for any other missing field."""
    if not isinstance(value, Mapping):
        return f"it is not a JSON object but of type {type(value).__name__}"
    if not isinstance(value.get("query"), str):
        return "it has no 'query' with the name of a query"
    if not isinstance(value.get("systems"), Mapping) or not value["systems"]:
        return "it has no 'systems' with their figures"
    return None


def _write(output: Path, text: str, inputs: Sequence[Path]) -> None:
    if output.resolve() in [path.resolve() for path in inputs]:
        raise UserError(f"'{output}' is an input", "the page would overwrite it", "Name another file with --output.")
    try:
        output.write_text(text, "utf-8")
    except OSError as error:
        raise UserError(f"cannot write '{output}'", error.strerror, "Name another file with --output.") from error
