"""`stretto simulate`: runs the cluster's state machines in virtual time, with seeded random inputs and faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from stretto.cli.progress import steps_bar
from stretto.cli.reporting import WRONG_ANSWER, note, print_json, reported
from stretto.cli.simulate.bursts import bursts
from stretto.cli.simulate.elastic import elastic
from stretto.cli.simulate.elastic_paper import elastic_paper
from stretto.cli.simulate.emitted_rows import emitted_rows
from stretto.cli.simulate.faults import faults
from stretto.cli.simulate.getafix import getafix
from stretto.cli.simulate.henge import henge
from stretto.cli.simulate.neighbours import neighbours
from stretto.cli.simulate.promises import promises
from stretto.cli.simulate.queries import queries
from stretto.cli.simulate.row_calls import row_calls
from stretto.cli.simulate.scaling import scaling
from stretto.cli.simulate.seeds import Sweep, mutation_named, try_seeds
from stretto.cli.simulate.shared_objects import shared_objects
from stretto.cli.simulate.social import social
from stretto.cli.simulate.sponge import sponge
from stretto.cli.simulate.stela import stela
from stretto.cli.simulate.strategies import strategies
from stretto.cli.simulate.tenants import tenants
from stretto.cli.simulate.transactions import transactions
from stretto.cli.simulate.workers import workers as come_and_go
from stretto.dashboard.simulated import SimulationRecording
from stretto.scheduling.strategies import STRATEGIES, strategy_named
from stretto.simulator.checking.barriers import try_seed
from stretto.simulator.checking.mutations import MUTATIONS
from stretto.simulator.engine.watching import watched_by
from stretto.simulator.experiments import send_modes
from stretto.simulator.experiments import shares as fair_shares

simulate = typer.Typer(
    name="simulate",
    no_args_is_help=True,
    help="Simulate whole clusters in virtual time: test the protocols, repeat the papers' experiments.",
)

simulate.command(
    epilog="Examples:  [bold]stretto simulate tenants[/]   [bold]stretto simulate tenants --only 5.8b --json[/]"
)(tenants)

simulate.command(
    name="elastic-paper",
    epilog="Examples:  [bold]stretto simulate elastic-paper --only 6 --nodes 8[/]   "
    "[bold]stretto simulate elastic-paper --json[/]",
)(elastic_paper)

simulate.command(
    epilog="Examples:  [bold]stretto simulate stela[/]   [bold]stretto simulate stela --only star --json[/]"
)(stela)

simulate.command(
    epilog="Examples:  [bold]stretto simulate henge[/]   [bold]stretto simulate henge --jobs 40 --units 4 --json[/]"
)(henge)

simulate.command(
    epilog="Examples:  [bold]stretto simulate sponge --only 10 --query q5[/]   [bold]stretto simulate sponge --json[/]",
)(sponge)

simulate.command(
    epilog="Examples:  [bold]stretto simulate getafix --clients 20[/]   "
    "[bold]stretto simulate getafix --deaths 4 --json[/]",
)(getafix)

simulate.command(
    epilog="Examples:  [bold]stretto simulate social --figure 6.12[/]   [bold]stretto simulate social --json[/]",
)(social)


@simulate.callback(epilog="Example:  [bold]stretto simulate --report run.html shares[/]")
def about(
    context: typer.Context,
    report: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Write the page of the last simulated cluster as one HTML file, to be opened in a browser.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Simulate whole clusters in virtual time: test the protocols, repeat the papers' experiments."""
    if report is None:
        return
    recording = SimulationRecording()
    context.with_resource(watched_by(recording))

    def write() -> None:
        with reported():
            recording.write_report(report)
        note(f"The report is in {report}")

    context.call_on_close(write)


@simulate.command(
    epilog="Examples:  [bold]stretto simulate barriers --seeds 1000[/]   "
    "[bold]stretto simulate barriers --seeds 1000 --mutate no-dependency-payload[/]"
)
def barriers(
    seeds: Annotated[int, typer.Option(min=1, help="Number of random runs.")] = 1_000,
    first: Annotated[int, typer.Option(min=0, help="First seed; use with --seeds 1 to replay a run.")] = 0,
    workers: Annotated[int, typer.Option(min=2, help="Maximum number of workers in a run.")] = 8,
    functions: Annotated[int, typer.Option(min=3, help="Maximum number of functions in a dataflow.")] = 8,
    mutate: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"Plant a bug in the protocol: {', '.join(MUTATIONS)}.")
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Placement of messages: {', '.join(STRATEGIES)}, or module:Class; by default, every decision is "
            "random (seeded).",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Test the dual-mode protocol on random dataflows, schedules and disturbances, and check every run.

    Messages are delayed and reordered across channels, control frames are duplicated, workers are slow, pause, join
    and leave, and their clocks differ. Checks: messages sent before a critical message run before it, and later ones
    after it; no message is lost or duplicated; the answer equals that of a sequential run; every barrier ends; every
    mailbox transition is in the table. The exit code is 1 when a check fails; the command that replays the run is
    printed."""
    with reported():
        parts = None if mutate is None else mutation_named(mutate, MUTATIONS)
        make = None if strategy is None else partial(strategy_named, strategy)
        if make is not None:
            make()  # Report a wrong name before anything runs.
    sweep = Sweep(
        "barriers",
        {"workers": workers, "functions": functions, "mutate": mutate, "strategy": strategy},
        lambda seed: [try_seed(seed, workers, functions, parts, make)],
        lambda trial: {"barriers": trial.barriers, "messages": trial.messages},
        lambda trial: trial.log,
    )
    try_seeds(sweep, range(first, first + seeds), json, lambda found: Console().print(_table(found)))


simulate.command(epilog="Example:  [bold]stretto simulate strategies[/]")(strategies)
simulate.command(
    name="workers",
    epilog="Examples:  [bold]stretto simulate workers --seeds 1000[/]   "
    "[bold]stretto simulate workers --mutate left-at-once[/]",
)(come_and_go)
simulate.command(
    epilog="Examples:  [bold]stretto simulate elastic --seeds 1000[/]   "
    "[bold]stretto simulate elastic --faults[/]   [bold]stretto simulate elastic --mutate give-early[/]"
)(elastic)

simulate.command(
    epilog="Examples:  [bold]stretto simulate scaling --seeds 1000[/]   "
    "[bold]stretto simulate scaling --mutate source-reads-on[/]"
)(scaling)

simulate.command(
    epilog="Examples:  [bold]stretto simulate bursts --seeds 1000[/]   "
    "[bold]stretto simulate bursts --mutate critical-overtakes[/]"
)(bursts)

simulate.command(
    epilog="Examples:  [bold]stretto simulate faults --seeds 10000[/]   "
    "[bold]stretto simulate faults --mutate offset-forgotten[/]"
)(faults)

simulate.command(
    epilog="Examples:  [bold]stretto simulate transactions --seeds 10000[/]   "
    "[bold]stretto simulate transactions --mutate skew-allowed[/]"
)(transactions)

simulate.command(
    epilog="Examples:  [bold]stretto simulate row-calls --seeds 1000[/]   "
    "[bold]stretto simulate row-calls --mutate called-at-once[/]"
)(row_calls)


simulate.command(
    epilog="Examples:  [bold]stretto simulate promises --seeds 200[/]   "
    "[bold]stretto simulate promises --mutate unheard[/]"
)(promises)

simulate.command(
    epilog="Examples:  [bold]stretto simulate emitted-rows --seeds 1000[/]   "
    "[bold]stretto simulate emitted-rows --mutate settled-at-marks[/]"
)(emitted_rows)

simulate.command(
    epilog="Examples:  [bold]stretto simulate queries --seeds 1000[/]   "
    "[bold]stretto simulate queries --mutate sealed-forgotten[/]"
)(queries)

simulate.command(
    epilog="Examples:  [bold]stretto simulate shared-objects --seeds 1000[/]   "
    "[bold]stretto simulate shared-objects --mutate own-unseen[/]"
)(shared_objects)

simulate.command(
    epilog="Examples:  [bold]stretto simulate neighbours --seeds 1000[/]   "
    "[bold]stretto simulate neighbours --mutate no-quarantine[/]"
)(neighbours)


@simulate.command(epilog="Example:  [bold]stretto simulate spread[/]")
def spread(
    seconds: Annotated[float, typer.Option(min=0.5, help="Virtual seconds per run.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Random seed; equal seeds give equal runs.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Compare two ways to spread an actor's work on 128 workers: by its lessor (REJECTSEND) or by senders (DIRECTSEND).

    Latency is from the end of a window to its result. The number of instances per actor is varied first, then the skew
    of the sources, as in figure 9 of the paper. Takes about three minutes."""
    with reported(), steps_bar() as bar:
        task = bar.add_task("runs", total=send_modes.STEPS)
        by_instances = send_modes.by_instances(seed, seconds, lambda: bar.advance(task))
        by_skew = send_modes.by_skew(seed, seconds, lambda: bar.advance(task))
    if json:
        print_json({"by_instances": [_point(p) for p in by_instances], "by_skew": [_point(p) for p in by_skew]})
        return
    for title, points in (("by instances per actor", by_instances), ("by skew of sources", by_skew)):
        table = Table("actors", "instances", "skew", "REJECTSEND p50 ms", "DIRECTSEND p50 ms", "ratio", title=title)
        for point in points:
            medians = (f"{found.p50:,.1f}" for found in (point.reject, point.direct))
            skew = "-" if point.skew is None else f"{point.skew:g}"
            table.add_row(str(point.actors), str(point.instances), skew, *medians, f"{point.reject_by_direct:.2f}")
        Console().print(table)


@simulate.command(epilog="Example:  [bold]stretto simulate shares[/]")
def shares(
    workers: Annotated[int, typer.Option(min=1, help="Number of workers that the jobs share.")] = 3,
    seconds: Annotated[float, typer.Option(min=0.5, help="Virtual seconds per phase.")] = 2.0,
    seed: Annotated[int, typer.Option(help="Random seed; equal seeds give equal runs.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Check fair shares: three jobs get 20, 40 and 40 percent of the workers' time, while one job pauses and resumes.

    While the job is paused, the others divide its share by their weights; when it resumes, it gets its own share again,
    without compensation in either direction. The exit code is 1 when a share on any worker is off by more than 3
    percentage points."""
    with reported():
        report = fair_shares.simulated(workers, seconds, seed)
    if json:
        print_json(report.as_dict())
    else:
        table = Table("phase", "worker", *(f"{job} %" for job in fair_shares.SHARES), "max deviation, points")
        for phase in report.phases:
            expected = (f"{phase.expected.get(job, 0.0):.1f}" for job in fair_shares.SHARES)
            table.add_row(phase.name, "expected", *expected, f"{phase.points_off:.2f}")
            for member, found in phase.found.items():
                table.add_row("", member, *(f"{percent:.1f}" for percent in found.values()), "")
            table.add_section()
        Console().print(table)
    if not report.holds:
        raise typer.Exit(WRONG_ANSWER)


def _point(point: send_modes.Point) -> dict[str, Any]:
    return {**asdict(point), "reject_by_direct": point.reject_by_direct}


def _table(found: Mapping[str, Any]) -> Table:
    table = Table("seeds", "barriers", "messages", "violations", "seeds/s")
    violations = ", ".join(f"{count} {kind}" for kind, count in found["violations"].items()) or "none"
    figures = (f"{found[name]:,}" for name in ("seeds", "barriers", "messages"))
    table.add_row(*figures, violations, f"{found['seeds_per_s']:,}")
    return table
