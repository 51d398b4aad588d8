"""`stretto simulate workers`: workers are added and drained at random while jobs run, also under faults."""

from __future__ import annotations

from typing import Annotated

import typer

from stretto.cli.reporting import reported
from stretto.cli.simulate.seeds import Sweep, mutation_named, try_seeds
from stretto.simulator.checking.scaling_workers import Trial, try_seed
from stretto.simulator.checking.scaling_workers_mutations import SCALING_MUTATIONS

COUNTED = ("added", "drained", "refused", "lessees_set", "leases_ended", "handovers", "recoveries")


def workers(
    seeds: Annotated[int, typer.Option(min=1, help="Number of random runs.")] = 1_000,
    first: Annotated[int, typer.Option(min=0, help="First seed; use with --seeds 1 to replay a run.")] = 0,
    workers: Annotated[int, typer.Option(min=2, help="Maximum number of workers at the start of a run.")] = 5,
    functions: Annotated[int, typer.Option(min=3, help="Maximum number of functions in a dataflow.")] = 7,
    mutate: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"Plant a bug: {', '.join(SCALING_MUTATIONS)}.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Add and drain workers and set numbers of lessees at random while random dataflows run, and check every run.

    Every third seed has checkpoints and faults: workers that drain crash, hang and are cut off, the driver dies.
    Results must equal those of a sequential run. Nothing new may come to a worker that drains; it leaves when nothing
    is there, is not replaced, and its slot is free when its task has returned; in the end there are as many workers as
    are wanted. No actor has more lessees than were set for it, but until its next barrier. The exit code is 1 when a
    check fails; the command that replays the run is printed."""
    with reported():
        parts = None if mutate is None else mutation_named(mutate, SCALING_MUTATIONS)
    options = {"workers": workers, "functions": functions, "mutate": mutate}
    sweep = Sweep(
        "workers", options, lambda seed: [try_seed(seed, workers, functions, parts)], _counts, lambda trial: trial.log
    )
    try_seeds(sweep, range(first, first + seeds), json)


def _counts(trial: Trial) -> dict[str, int]:
    return {name: getattr(trial, name) for name in COUNTED}
