"""`stretto simulate elastic`: tests elastic executors while shards move at random, also under faults."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from stretto.cli.reporting import reported
from stretto.cli.simulate.seeds import Sweep, mutation_named, try_seeds
from stretto.simulator.checking.elastic import try_seed, try_with_faults
from stretto.simulator.checking.elastic_mutations import ELASTIC_FAULT_MUTATIONS, ELASTIC_MUTATIONS
from stretto.simulator.engine.durable import Parts

ALL_MUTATIONS = ELASTIC_MUTATIONS | ELASTIC_FAULT_MUTATIONS


def elastic(
    seeds: Annotated[int, typer.Option(min=1, help="Number of random runs.")] = 1_000,
    first: Annotated[int, typer.Option(min=0, help="First seed; use with --seeds 1 to replay a run.")] = 0,
    workers: Annotated[int, typer.Option(min=2, help="Maximum number of workers in a run.")] = 6,
    functions: Annotated[int, typer.Option(min=3, help="Maximum number of functions in a dataflow.")] = 7,
    faults: Annotated[
        bool, typer.Option("--faults", help="With checkpoints; workers and the driver crash, hang and are cut off.")
    ] = False,
    rescale: Annotated[
        bool, typer.Option("--rescale", help="With --faults: also restart it with other numbers of partitions.")
    ] = False,
    mutate: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"Plant a bug in elastic executors: {', '.join(ALL_MUTATIONS)}."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Test elastic executors on random dataflows: shards move between workers at random moments, and every run is
    checked.

    The rows of each key must run once, in the order in which they were sent, and on the right side of each critical
    message; the answer must equal that of a sequential run. With --faults, the published results must equal those of a
    run without faults. The exit code is 1 when a check fails; the command that replays the run is printed."""
    with reported():
        parts = None if mutate is None else mutation_named(mutate, ALL_MUTATIONS)
        with_faults = faults or rescale or mutate in ELASTIC_FAULT_MUTATIONS

    def runs(seed: int) -> Iterable[Any]:
        if with_faults:
            return [try_with_faults(seed, workers, functions, Parts(worker=parts), rescale)]
        return [try_seed(seed, workers, functions, parts)]

    options = {"workers": workers, "functions": functions, "faults": faults, "rescale": rescale, "mutate": mutate}
    sweep = Sweep("elastic", options, runs, _counts, _details)
    try_seeds(sweep, range(first, first + seeds), json)


def _counts(trial: Any) -> dict[str, int]:
    names = ("barriers", "messages", "moved", "checkpoints", "recoveries", "takeovers")
    return {"runs": 1, **{name: getattr(trial, name) for name in names if hasattr(trial, name)}}


def _details(trial: Any) -> str:
    return "; ".join(trial.faults) if hasattr(trial, "faults") else str(trial.log)
