"""`stretto functions`: which functions of Spark are supported in expressions."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from stretto.cli.reporting import print_json
from stretto.expressions.refused import refusal_of
from stretto.expressions.support import entries, markdown


def functions(
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the page docs/functions.md.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """List every function of Spark SQL with its support in expressions, and why one is refused."""
    if as_markdown:
        typer.echo(markdown(), nl=False)
        return
    found = entries()
    if json:
        print_json({"functions": [{"name": e.name, "support": e.support.value, "group": e.group} for e in found]})
        return
    table = Table("function", "support", "why")
    for entry in found:
        refusal = refusal_of(entry.name) if entry.group else None
        table.add_row(entry.name, entry.support.value, refusal.reason if refusal else "")
    console = Console()
    console.print(table)
    for support, count in Counter(entry.support.value for entry in found).items():
        console.print(f"{count} {support}", highlight=False)
