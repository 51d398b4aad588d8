"""`stretto simulate scaling`: tests handovers of running jobs, also under faults."""

from __future__ import annotations

from typing import Annotated

import typer

from stretto.cli.reporting import reported
from stretto.cli.simulate.seeds import Sweep, mutation_named, try_seeds
from stretto.simulator.checking.scaling import Trial, try_seed
from stretto.simulator.checking.scaling_mutations import SCALING_MUTATIONS

_COUNTS = ("handovers", "called_off", "barriers", "messages", "checkpoints", "recoveries")


def scaling(
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds; each has two random runs.")] = 1_000,
    first: Annotated[int, typer.Option(min=0, help="First seed; use with --seeds 1 to replay a run.")] = 0,
    workers: Annotated[int, typer.Option(min=2, help="Maximum number of workers in a run.")] = 4,
    functions: Annotated[int, typer.Option(min=3, help="Maximum number of functions in a dataflow.")] = 6,
    mutate: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"Plant a bug in handovers: {', '.join(SCALING_MUTATIONS)}.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Test handovers on random dataflows: running jobs get other numbers of partitions and other homes, and every run
    is checked.

    Each seed runs twice: without checkpoints and faults, and with both, where workers also crash in the middle of a
    handover. Handovers happen during barriers, checkpoints and moves of shards. No row may be lost, repeated or out of
    order, and the answer must equal that of a sequential run. The exit code is 1 when a check fails; the command that
    replays the run is printed."""
    with reported():
        parts = None if mutate is None else mutation_named(mutate, SCALING_MUTATIONS)
    sweep: Sweep[Trial] = Sweep(
        "scaling",
        {"workers": workers, "functions": functions, "mutate": mutate},
        lambda seed: try_seed(seed, workers, functions, parts),
        lambda trial: {"runs": 1, **{name: getattr(trial, name) for name in _COUNTS}},
        lambda trial: trial.log,
    )
    try_seeds(sweep, range(first, first + seeds), json)
