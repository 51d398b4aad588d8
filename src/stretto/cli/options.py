"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

Workers = Annotated[int, typer.Option(min=1, help="Number of workers; each runs in its own Spark task.")]
Report = Annotated[
    str | None,
    typer.Option(
        "--report",
        metavar="FILE",
        help="Write what the page shows as one HTML file at the end, to be opened in a browser.",
        show_default=False,
    ),
]
PageAt = Annotated[
    str | None,
    typer.Option(
        "--page-at",
        metavar="HOST:PORT",
        help="Show the page at this address; other machines need the token in the printed URL.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")]
