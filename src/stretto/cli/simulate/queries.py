"""`stretto simulate queries`: tests questions about a published table while workers are lost and copies move."""

from __future__ import annotations

from typing import Annotated

import typer

from stretto.cli.reporting import reported
from stretto.cli.simulate.seeds import Sweep, mutation_named, try_seeds
from stretto.simulator.checking.question_mutations import QUESTION_MUTATIONS
from stretto.simulator.checking.questions import Trial, try_seed

_COUNTS = ("questions", "crashes", "recoveries", "loads", "changes", "idle")


def queries(
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds; each is a random run.")] = 200,
    first: Annotated[int, typer.Option(min=0, help="First seed; use with --seeds 1 to replay a run.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Maximum number of workers in a run.")] = 4,
    mutate: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"Plant a bug: {', '.join(QUESTION_MUTATIONS)}.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Test questions about a table: its partitions publish segments with checkpoints, copies of them move between
    workers, workers are slow or lost, the job resumes from its last checkpoint, and some partitions get no more rows.

    Checks: no question fails or misses anything while a worker is left, but what a partition without rows keeps back,
    which is named; each answer is that of some prefix of each partition's rows, at least those that were there when it
    was asked. The exit code is 1 when a check fails; the command that replays the run is printed."""
    with reported():
        parts = None if mutate is None else mutation_named(mutate, QUESTION_MUTATIONS)
    sweep: Sweep[Trial] = Sweep(
        "queries",
        {"workers": workers, "mutate": mutate},
        lambda seed: [try_seed(seed, workers, parts)],
        lambda trial: {name: getattr(trial, name) for name in _COUNTS},
        lambda trial: f"{trial.questions} questions, {trial.crashes} crashes, {trial.recoveries} recoveries",
    )
    try_seeds(sweep, range(first, first + seeds), json)
