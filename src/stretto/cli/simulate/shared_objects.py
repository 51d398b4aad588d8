"""`stretto simulate shared-objects`: tests shared objects under crashes, lost messages, restarts and handovers."""

from __future__ import annotations

from typing import Annotated

import typer

from stretto.cli.reporting import reported
from stretto.cli.simulate.seeds import Sweep, mutation_named, try_seeds
from stretto.simulator.checking.shared_object_mutations import SHARED_OBJECT_MUTATIONS
from stretto.simulator.checking.shared_objects import Trial, try_seed

_COUNTS = ("rows", "reads", "checked", "crashes", "restarts", "recoveries", "handovers", "server_failures")


def shared_objects(
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds; each is a random run.")] = 1_000,
    first: Annotated[int, typer.Option(min=0, help="First seed; use with --seeds 1 to replay a run.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Maximum number of workers in a run.")] = 3,
    mutate: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"Plant a bug: {', '.join(SHARED_OBJECT_MUTATIONS)}.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Test functions that share objects, in the workers' memory or on a server: homes are lost, messages are lost, late
    and repeated, the server is lost for a while, the driver restarts, functions get other numbers of partitions.

    Checks: what is read is what its home held at some moment with the reader's own writes, as fresh as was promised;
    each write is made once, and each row comes out once. The exit code is 1 when a check fails; the command that
    replays the run is printed."""
    with reported():
        parts = None if mutate is None else mutation_named(mutate, SHARED_OBJECT_MUTATIONS)
    sweep: Sweep[Trial] = Sweep(
        "shared-objects",
        {"workers": workers, "mutate": mutate},
        lambda seed: [try_seed(seed, workers, parts)],
        lambda trial: {name: getattr(trial, name) for name in _COUNTS},
        lambda trial: f"{trial.rows} rows, {trial.crashes} crashes, {'a server' if trial.server else 'in memory'}",
    )
    try_seeds(sweep, range(first, first + seeds), json)
