"""`stretto simulate emitted-rows`: tests rows that entities emit under crashes, hangs, restarts and handovers."""

from __future__ import annotations

from typing import Annotated

import typer

from stretto.cli.reporting import reported
from stretto.cli.simulate.seeds import Sweep, mutation_named, try_seeds
from stretto.simulator.checking.emitted_mutations import EMITTED_MUTATIONS
from stretto.simulator.checking.emitted_rows import Trial, try_seed

_COUNTS = ("rows", "crashes", "restarts", "recoveries", "handovers", "moves", "snapshots", "stopped")


def emitted_rows(
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds; each is a random run.")] = 1_000,
    first: Annotated[int, typer.Option(min=0, help="First seed; use with --seeds 1 to replay a run.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Maximum number of workers in a run, beyond the second.")] = 3,
    mutate: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"Plant a bug: {', '.join(EMITTED_MUTATIONS)}.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Test apps whose entities emit rows into a stream, while workers crash, hang and are cut off, the driver restarts,
    places of entities move, handlers run out of time, and the stream gets other numbers of partitions.

    Checks: each row of a transaction that committed comes out once, and no other; rows of an entity stay in order; none
    comes after a watermark that it was before; no row is kept for ever. The exit code is 1 when a check fails; the
    command that replays the run is printed."""
    with reported():
        parts = None if mutate is None else mutation_named(mutate, EMITTED_MUTATIONS)
    sweep: Sweep[Trial] = Sweep(
        "emitted-rows",
        {"workers": workers, "mutate": mutate},
        lambda seed: [try_seed(seed, workers, parts)],
        lambda trial: {name: getattr(trial, name) for name in _COUNTS},
        lambda trial: f"{trial.rows} rows, {trial.crashes} crashes, {trial.recoveries} recoveries",
    )
    try_seeds(sweep, range(first, first + seeds), json)
