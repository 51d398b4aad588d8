"""`stretto simulate faults`: checkpoints and recovery against crashes, cuts, full disks and flipped bits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from stretto.cli.reporting import reported
from stretto.cli.simulate.seeds import Sweep, mutation_named, try_seeds
from stretto.simulator.checking.fault_mutations import MUTATIONS
from stretto.simulator.checking.faults import Trial, try_every_step, try_seed


def faults(
    seeds: Annotated[int, typer.Option(min=1, help="How many random runs.")] = 1_000,
    first: Annotated[int, typer.Option(min=0, help="The first seed; with --seeds 1, the run to replay.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Workers of a run, at most.")] = 5,
    functions: Annotated[int, typer.Option(min=3, help="Functions of a dataflow, at most.")] = 7,
    mutate: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"Break checkpoints or recovery: {', '.join(MUTATIONS)}.")
    ] = None,
    every_step: Annotated[
        bool,
        typer.Option("--every-step", help="Instead: a small dataflow for each seed, and a crash at each of its steps."),
    ] = False,
    rescale: Annotated[
        bool, typer.Option("--rescale", help="Also start it again with other numbers of workers and partitions.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else there.")] = False,
) -> None:
    """Try checkpoints and recovery on random dataflows while everything breaks, and compare what comes out.

    Workers crash at any moment, hang and wake up when they are replaced already, are cut off from each other or from
    the driver; the driver dies and is started again; writes are torn, the disk is full for a while, bits flip, clocks
    jump. In the end the results outside must be those of a run without failures. The exit code is 1 when any is not."""
    with reported():
        parts = None if mutate is None else mutation_named(mutate, MUTATIONS)

    def runs(seed: int) -> Iterable[Trial]:
        if every_step:
            return try_every_step(seed, functions)
        return [try_seed(seed, workers, functions, parts, rescales=rescale)]

    options: dict[str, str | int | bool | None] = {"workers": workers, "functions": functions, "mutate": mutate}
    sweep = Sweep(
        "faults",
        {**options, "every-step": every_step, "rescale": rescale},
        runs,
        _counts,
        lambda t: "; ".join(t.faults),
    )
    try_seeds(sweep, range(first, first + seeds), json)


def _counts(trial: Trial) -> dict[str, int]:
    return {
        "checkpoints": trial.checkpoints,
        "recoveries": trial.recoveries,
        "faults": len(trial.faults),
        "runs": 1,
    }
