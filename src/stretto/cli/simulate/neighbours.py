"""`stretto simulate neighbours`: tests that a job with a deadly function harms no other job."""

from __future__ import annotations

from typing import Annotated

import typer

from stretto.cli.reporting import reported
from stretto.cli.simulate.seeds import Sweep, mutation_named, try_seeds
from stretto.simulator.checking.neighbour_mutations import MUTATIONS
from stretto.simulator.checking.neighbours import Trial, try_seed


def neighbours(
    seeds: Annotated[int, typer.Option(min=1, help="Number of random runs.")] = 300,
    first: Annotated[int, typer.Option(min=0, help="First seed; use with --seeds 1 to replay a run.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Maximum number of workers in a run.")] = 4,
    functions: Annotated[int, typer.Option(min=3, help="Maximum number of functions in a dataflow.")] = 6,
    mutate: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"Plant a bug in the rules of blame: {', '.join(MUTATIONS)}."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Run good jobs beside one whose function ends its workers, and check how all of them end.

    The function crashes, kills its process, ends it from a thread, keeps it from sending heartbeats, or does not
    return. The good jobs must finish with all rows right, the bad one must fail by name (or stop, if it does not
    return), and the number of deaths is bounded; the exit code is 1 otherwise."""
    with reported():
        parts = None if mutate is None else mutation_named(mutate, MUTATIONS)
    options: dict[str, str | int | bool | None] = {"workers": workers, "functions": functions, "mutate": mutate}
    sweep = Sweep(
        "neighbours", options, lambda seed: [try_seed(seed, workers, functions, parts)], _counts, _description
    )
    try_seeds(sweep, range(first, first + seeds), json)


def _counts(trial: Trial) -> dict[str, int]:
    return {"deaths": trial.deaths, "good": trial.good, trial.kind.name.lower(): 1}


def _description(trial: Trial) -> str:
    return f"{trial.kind.value}; {trial.good} good jobs, {trial.workers} workers"
