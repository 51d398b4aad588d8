"""Shared by the commands that try many seeds: the loop, the figures, and the command that replays a seed."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import typer

from stretto.cli.progress import steps_bar
from stretto.cli.reporting import WRONG_ANSWER, complain, note, print_figures, print_json, reported
from stretto.errors import UserError
from stretto.simulator.checking.checkers import Violation

SHOWN_MAX = 3
"""Maximum number of failing runs shown in full, and of violations shown for each."""

M = TypeVar("M")


class Trial(Protocol):
    """One run of a seed, with its violations."""

    seed: int
    violations: list[Violation]


T = TypeVar("T", bound=Trial)


@dataclass(frozen=True)
class Sweep(Generic[T]):
    """A command that tries seeds. `options` are the options that a run depends on, by command-line name."""

    command: str
    options: Mapping[str, str | int | bool | None]
    runs: Callable[[int], Iterable[T]]
    """Returns all runs of a seed."""
    counts: Callable[[T], Mapping[str, int]]
    """Returns the figures of a run, which are summed."""
    details: Callable[[T], str]
    """Describes a run that failed."""

    def replay(self, seed: int) -> str:
        """Returns the command that repeats the runs of a seed exactly."""
        words = ["stretto", "simulate", self.command, "--seeds", "1", "--first", str(seed)]
        for name, value in self.options.items():
            if value is True:
                words.append(f"--{name}")
            elif value is not None and value is not False:
                words += [f"--{name}", str(value)]
        return shlex.join(words)


def try_seeds(
    sweep: Sweep[T], seeds: range, json: bool, show: Callable[[Mapping[str, Any]], None] = print_figures
) -> None:
    """Try the seeds and print figures and failing runs; exit with code 1 if any failed. With a mutation, stop at the
    first failing seed."""
    mutation = sweep.options.get("mutate")
    failed: list[T] = []
    totals: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    began = time.perf_counter()
    with reported(), steps_bar() as bar:
        for seed in bar.track(seeds, description="seeds"):
            totals["seeds"] += 1
            for trial in sweep.runs(seed):
                totals.update(sweep.counts(trial))
                kinds.update(violation.kind for violation in trial.violations)
                if trial.violations:
                    failed.append(trial)
            if failed and mutation is not None:
                break  # One failure shows that the mutation is caught.
    found: dict[str, Any] = {
        **totals,
        "violations": dict(sorted(kinds.items())),
        "seeds_per_s": round(totals["seeds"] / (time.perf_counter() - began), 1),
        "failed_seeds": [trial.seed for trial in failed],
    }
    if mutation is not None:
        found["mutation"] = mutation
    for trial in failed[:SHOWN_MAX]:
        _report(sweep, trial)
    (print_json if json else show)(found)
    if failed:
        raise typer.Exit(WRONG_ANSWER)


def mutation_named(name: str, mutations: Mapping[str, M]) -> M:
    if name not in mutations:
        raise UserError(f"there is no mutation '{name}'", None, f"Choose one of {', '.join(mutations)}.")
    return mutations[name]


def _report(sweep: Sweep[T], trial: T) -> None:
    for violation in trial.violations[:SHOWN_MAX]:
        complain(f"seed {trial.seed}: {violation.kind}: {violation.witness}")
    note(sweep.details(trial))
    note(f"Replay it with: {sweep.replay(trial.seed)}")
