"""`stretto simulate faults`: checkpoints and recovery against crashes, cuts, full disks and flipped bits."""

from __future__ import annotations

import time
from collections import Counter
from functools import partial
from typing import Annotated, Any

import typer

from stretto.cli.progress import steps_bar
from stretto.cli.reporting import WRONG_ANSWER, errors, print_figures, print_json, reported
from stretto.errors import UserError
from stretto.simulator.checking.fault_mutations import MUTATIONS
from stretto.simulator.checking.faults import Trial, try_every_step, try_seed
from stretto.simulator.engine.durable import Parts

SHOWN_MAX = 3


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
        parts = _parts(mutate)
        began = time.perf_counter()
        failed: list[Trial] = []
        totals: Counter[str] = Counter()
        kinds: Counter[str] = Counter()
        with steps_bar() as bar:
            for seed in bar.track(range(first, first + seeds), description="seeds"):
                totals["seeds"] += 1
                drawn = partial(try_seed, seed, workers, functions, parts, rescales=rescale)
                for trial in try_every_step(seed, functions) if every_step else [drawn()]:
                    totals.update(
                        checkpoints=trial.checkpoints, recoveries=trial.recoveries, faults=len(trial.faults), runs=1
                    )
                    kinds.update(violation.kind for violation in trial.violations)
                    if trial.violations:
                        failed.append(trial)
                if failed and mutate is not None:
                    break  # Caught: the others would show the same.
    found: dict[str, Any] = {
        **totals,
        "violations": dict(sorted(kinds.items())),
        "seeds_per_s": round(totals["seeds"] / (time.perf_counter() - began), 1),
        "failed_seeds": [trial.seed for trial in failed],
    }
    if mutate is not None:
        found["mutation"] = mutate
    for trial in failed[:SHOWN_MAX]:
        _tell(trial)
    if json:
        print_json(found)
    else:
        print_figures(found)
    if failed:
        raise typer.Exit(WRONG_ANSWER)


def _parts(mutate: str | None) -> Parts | None:
    if mutate is None:
        return None
    if mutate not in MUTATIONS:
        raise UserError(f"there is no mutation '{mutate}'", None, f"Use one of {', '.join(MUTATIONS)}.")
    return MUTATIONS[mutate]


def _tell(trial: Trial) -> None:
    errors.print(f"seed {trial.seed}: {'; '.join(trial.faults)}", markup=False, highlight=False)
    for violation in trial.violations[:SHOWN_MAX]:
        errors.print(f"  {violation.kind}: {violation.witness}", markup=False, highlight=False)
    errors.print(f"  replay: stretto simulate faults --seeds 1 --first {trial.seed}", markup=False, highlight=False)
