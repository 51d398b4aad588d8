"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

Workers = Annotated[int, typer.Option(min=1, help="Number of workers; each runs in its own Spark task.")]
Json = Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")]
