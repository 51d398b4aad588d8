"""`stretto simulate faults`: tests checkpoints and recovery under crashes, network cuts, full disks and bit flips."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from stretto.cli.reporting import reported
from stretto.cli.simulate.seeds import Sweep, mutation_named, try_seeds
from stretto.simulator.checking.changing import ChangingScenario
from stretto.simulator.checking.clocks import try_clocks
from stretto.simulator.checking.fault_mutations import MUTATIONS
from stretto.simulator.checking.faults import Trial, try_every_step, try_seed
from stretto.simulator.checking.scenarios import Scenario


def faults(
    seeds: Annotated[int, typer.Option(min=1, help="Number of random runs.")] = 1_000,
    first: Annotated[int, typer.Option(min=0, help="First seed; use with --seeds 1 to replay a run.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Maximum number of workers in a run.")] = 5,
    functions: Annotated[int, typer.Option(min=3, help="Maximum number of functions in a dataflow.")] = 7,
    mutate: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"Plant a bug in checkpoints or recovery: {', '.join(MUTATIONS)}."),
    ] = None,
    every_step: Annotated[
        bool,
        typer.Option("--every-step", help="Instead, run a small dataflow per seed and crash it at each step."),
    ] = False,
    rescale: Annotated[
        bool, typer.Option("--rescale", help="Also restart it with other numbers of workers and partitions.")
    ] = False,
    changes: Annotated[
        bool, typer.Option("--changes", help="Run functions over rows that change: aggregates, tops and joins.")
    ] = False,
    clocks: Annotated[
        bool,
        typer.Option("--clocks", help="Instead, only step clocks, and compare with a run whose clocks do not step."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Test checkpoints and recovery on random dataflows with random faults, and check the published results.

    Workers crash at any moment, hang until after they are replaced, and lose the connection to each other or to the
    driver; the driver crashes and restarts, or hangs while another one takes over and perhaps ends before a third one
    resumes; writes are torn, the disk is temporarily full, bits flip, clocks step. The published results must equal
    those of a run without faults; the exit code is 1 when they do not."""
    with reported():
        parts = None if mutate is None else mutation_named(mutate, MUTATIONS)

    def runs(seed: int) -> Iterable[Trial]:
        if every_step:
            return try_every_step(seed, functions)
        if clocks:
            return [try_clocks(seed, workers, functions, parts)]
        kind = ChangingScenario if changes else Scenario
        return [try_seed(seed, workers, functions, parts, rescales=rescale, kind=kind)]

    options: dict[str, str | int | bool | None] = {"workers": workers, "functions": functions, "mutate": mutate}
    sweep = Sweep(
        "faults",
        {**options, "every-step": every_step, "rescale": rescale, "changes": changes, "clocks": clocks},
        runs,
        _counts,
        lambda t: "; ".join(t.faults),
    )
    try_seeds(sweep, range(first, first + seeds), json)


def _counts(trial: Trial) -> dict[str, int]:
    return {
        "checkpoints": trial.checkpoints,
        "recoveries": trial.recoveries,
        "takeovers": trial.takeovers,
        "faults": len(trial.faults),
        "runs": 1,
    }
