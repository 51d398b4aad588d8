"""`stretto simulate bursts`: tests redirecting batches to transient workers, which may vanish."""

from __future__ import annotations

from typing import Annotated

import typer

from stretto.cli.reporting import reported
from stretto.cli.simulate.seeds import Sweep, mutation_named, try_seeds
from stretto.simulator.checking.burst_mutations import BURST_MUTATIONS
from stretto.simulator.checking.bursts import Trial, try_seed

_COUNTS = ("redirected", "vanished", "came", "left", "twins", "steps", "given_back", "recoveries")


def bursts(
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds; each is a random run.")] = 1_000,
    first: Annotated[int, typer.Option(min=0, help="First seed; use with --seeds 1 to replay a run.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Maximum number of ordinary workers in a run.")] = 4,
    functions: Annotated[int, typer.Option(min=3, help="Maximum number of functions in a dataflow.")] = 6,
    mutate: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"Plant a bug in redirecting: {', '.join(BURST_MUTATIONS)}.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Test bursts on random dataflows: batches go to transient workers and come back at random moments, and transient
    workers vanish, come and leave.

    Two of three seeds have no checkpoints: nothing may be lost or run twice all the same. The third has checkpoints,
    and faults of ordinary workers and of the driver. The answer must equal that of a sequential run, and two transient
    workers must never talk to each other. The exit code is 1 when a check fails; the command that replays the run is
    printed."""
    with reported():
        parts = None if mutate is None else mutation_named(mutate, BURST_MUTATIONS)
    sweep: Sweep[Trial] = Sweep(
        "bursts",
        {"workers": workers, "functions": functions, "mutate": mutate},
        lambda seed: [try_seed(seed, workers, functions, parts)],
        lambda trial: {name: getattr(trial, name) for name in _COUNTS},
        lambda trial: trial.log,
    )
    try_seeds(sweep, range(first, first + seeds), json)
