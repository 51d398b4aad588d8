"""`stretto simulate transactions`: tests the protocol of entities under delays, repeated messages and crashes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from stretto.cli.reporting import reported
from stretto.cli.simulate.seeds import Sweep, mutation_named, try_seeds
from stretto.errors import UserError
from stretto.simulator.checking.hosted_mutations import HOSTED_MUTATIONS
from stretto.simulator.checking.hosted_transactions import try_hosted_seed
from stretto.simulator.checking.kept_mutations import KEPT_MUTATIONS
from stretto.simulator.checking.kept_transactions import try_kept_seed
from stretto.simulator.checking.transaction_mutations import TRANSACTION_MUTATIONS
from stretto.simulator.checking.transactions import Trial, try_seed

_COUNTS = ("transactions", "aborted", "fallbacks", "crashes", "torn", "snapshots", "moves", "evidence")


def transactions(
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds; each is a random run.")] = 1_000,
    first: Annotated[int, typer.Option(min=0, help="First seed; use with --seeds 1 to replay a run.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Maximum number of workers in a run.")] = 4,
    hosted: Annotated[
        bool, typer.Option("--hosted", help="Run them in whole workers, as on Spark, which also hang and are cut off.")
    ] = False,
    kept: Annotated[
        bool,
        typer.Option(
            "--kept",
            help="Try what is kept between calls: keys, delayed calls, expiry, deletion, limits.",
        ),
    ] = False,
    mutate: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Plant a bug in the protocol: {', '.join(TRANSACTION_MUTATIONS)}; "
            f"with --hosted: {', '.join(HOSTED_MUTATIONS)}; with --kept: {', '.join(KEPT_MUTATIONS)}.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Test transactions of entities: random trees of calls, while messages are slow, overtake each other and come
    twice, and workers and the coordinator crash at any moment, with torn logs.

    Checks: the history is strictly serializable (lists that are appended to and read; G0, G1, G2 and real time);
    replies and the final state equal those of a model that runs one transaction after another; every call is answered
    once, and with the same reply before and after crashes. The exit code is 1 when a check fails; the command that
    replays the run is printed."""
    with reported():
        if hosted and kept:
            raise UserError("--hosted and --kept are two kinds of runs", None, "Choose one of them.")
        run = _hosted(workers, mutate) if hosted else _kept(workers, mutate) if kept else _plain(workers, mutate)
    sweep: Sweep[Trial] = Sweep(
        "transactions",
        {"workers": workers, "hosted": hosted, "kept": kept, "mutate": mutate},
        lambda seed: [run(seed)],
        lambda trial: {name: getattr(trial, name) for name in _COUNTS},
        lambda trial: f"{trial.transactions} transactions, {trial.crashes} crashes, {trial.snapshots} snapshots",
    )
    try_seeds(sweep, range(first, first + seeds), json)


def _plain(workers: int, mutate: str | None) -> Callable[[int], Trial]:
    parts = None if mutate is None else mutation_named(mutate, TRANSACTION_MUTATIONS)
    return lambda seed: try_seed(seed, workers, parts)


def _hosted(workers: int, mutate: str | None) -> Callable[[int], Trial]:
    parts = None if mutate is None else mutation_named(mutate, HOSTED_MUTATIONS)
    return lambda seed: try_hosted_seed(seed, workers, parts)


def _kept(workers: int, mutate: str | None) -> Callable[[int], Trial]:
    parts = None if mutate is None else mutation_named(mutate, KEPT_MUTATIONS)
    return lambda seed: try_kept_seed(seed, workers, parts)
