"""`stretto simulate row-calls`: tests streams that call entities under crashes, hangs, restarts and handovers."""

from __future__ import annotations

from typing import Annotated

import typer

from stretto.cli.reporting import reported
from stretto.cli.simulate.seeds import Sweep, mutation_named, try_seeds
from stretto.simulator.checking.row_call_mutations import ROW_CALL_MUTATIONS
from stretto.simulator.checking.row_calls import Trial, try_seed

_COUNTS = ("rows", "aborted", "crashes", "restarts", "recoveries", "handovers", "moves", "snapshots")


def row_calls(
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds; each is a random run.")] = 1_000,
    first: Annotated[int, typer.Option(min=0, help="First seed; use with --seeds 1 to replay a run.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Maximum number of workers in a run, beyond the second.")] = 3,
    mutate: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"Plant a bug: {', '.join(ROW_CALL_MUTATIONS)}.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Test apps with streams and entities: rows of random dataflows call entities, while workers crash, hang and are
    cut off, the driver restarts, and functions get other numbers of partitions.

    Checks: each row's transaction took place once, or was aborted and left nothing; each row comes out once, with the
    reply that the entities show; none comes after a watermark that it was before. The exit code is 1 when a check
    fails; the command that replays the run is printed."""
    with reported():
        parts = None if mutate is None else mutation_named(mutate, ROW_CALL_MUTATIONS)
    sweep: Sweep[Trial] = Sweep(
        "row-calls",
        {"workers": workers, "mutate": mutate},
        lambda seed: [try_seed(seed, workers, parts)],
        lambda trial: {name: getattr(trial, name) for name in _COUNTS},
        lambda trial: f"{trial.rows} rows, {trial.crashes} crashes, {trial.recoveries} recoveries",
    )
    try_seeds(sweep, range(first, first + seeds), json)
