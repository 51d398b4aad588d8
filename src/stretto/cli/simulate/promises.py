"""`stretto simulate promises`: tests that objectives that change while a job runs are kept everywhere."""

from __future__ import annotations

from typing import Annotated

import typer

from stretto.cli.reporting import reported
from stretto.cli.simulate.seeds import Sweep, mutation_named, try_seeds
from stretto.simulator.checking.promise_mutations import PROMISE_MUTATIONS
from stretto.simulator.checking.promises import Trial, try_promises

_COUNTS = ("kept", "crashes", "handovers")


def promises(
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds; each is a random run.")] = 200,
    first: Annotated[int, typer.Option(min=0, help="First seed; use with --seeds 1 to replay a run.")] = 0,
    mutate: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"Plant a bug: {', '.join(PROMISE_MUTATIONS)}.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Test objectives that change: of random dataflows, while workers crash and functions get other numbers of
    partitions.

    Checks: after each change, all instances of the attempt that runs, and their channels, keep the objective that was
    set last. The exit code is 1 when a check fails; the command that replays the run is printed."""
    with reported():
        parts = None if mutate is None else mutation_named(mutate, PROMISE_MUTATIONS)
    sweep: Sweep[Trial] = Sweep(
        "promises",
        {"mutate": mutate},
        lambda seed: [try_promises(seed, parts)],
        lambda trial: {name: getattr(trial, name) for name in _COUNTS},
        lambda trial: f"{trial.kept} times kept, {trial.crashes} crashes, {trial.handovers} handovers",
    )
    try_seeds(sweep, range(first, first + seeds), json)
