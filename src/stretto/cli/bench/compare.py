"""`stretto bench compare`: compares stretto with other engines in one run."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from stretto.bench.compare.compare import Comparison, Plan, peers_from
from stretto.cli.progress import steps_bar
from stretto.cli.reporting import WRONG_ANSWER, print_json, reported


def compare(
    query: Annotated[str, typer.Option(help="A NEXMark query: q1, q2, q4, q5, q7, q8, q11 or q12.")] = "q7",
    peers: Annotated[
        str, typer.Option(help="Engines to compare with, from spark, flink, bytewax, pathway.")
    ] = "spark,flink,bytewax,pathway",
    events: Annotated[
        int, typer.Option(min=100_000, help="Events in each system's first run, which starts the search for its rate.")
    ] = 2_000_000,
    rate: Annotated[
        float | None,
        typer.Option(min=100, help="Events per second at which latency is measured; by default one that all sustain."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved rounds; the figures are their medians.")] = 5,
    seconds: Annotated[float, typer.Option(min=2, help="Length of a throughput run in seconds.")] = 8.0,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.")] = False,
) -> None:
    """Run one query on stretto and on other engines, on the same events and cores, and print throughput and latency.

    First, each system's answer is compared with Spark SQL's; a system with a wrong answer gets no figures. Then the
    command searches for each system's highest sustainable rate, and measures all systems in turn, round by round. The
    peers' environments are installed on first use. With all four peers this takes about a quarter of an hour.
    `bench/README.md` describes the method.
    """
    with reported():
        plan = Plan(query, peers_from(peers), events, rate, rounds, seconds=seconds)
        with steps_bar() as bar:
            task = bar.add_task(f"comparing {query}")
            comparison = Comparison(plan, bar.console.print, lambda: bar.advance(task))
            bar.update(task, total=comparison.steps)
            found = {**comparison.run(), "command": shlex.join(["stretto", *sys.argv[1:]])}
    if json:
        print_json(found)
    else:
        Console().print(table(found))
        _print_conditions(found)
    if any(system["match"] is False for system in found["systems"].values()):
        raise typer.Exit(WRONG_ANSWER)


def table(found: dict[str, Any]) -> Table:
    """Returns the figures of a comparison, one row per system."""
    shown = Table(
        *("system", "events/s/core", "ratio", "p50 ms", "p99 ms", "p99 ratio", "answer"),
        title=f"{found['query']}: {found['about']}",
        title_justify="left",
    )
    for name, system in found["systems"].items():
        latency = system["latency_ms"]
        shown.add_row(
            name,
            _number(system["events_per_s_per_core"]),
            _ratio(found, "throughput_per_core", name),
            _number(latency["p50"], 1),
            _number(latency["p99"], 1),
            _ratio(found, "p99", name),
            _answer(system),
        )
    return shown


def _print_conditions(found: dict[str, Any]) -> None:
    console = Console(highlight=False)
    load = found["load"]
    console.print(f"latency at {_number(found['rate'])} events/s; a ratio is stretto's figure divided by the system's,")
    console.print(
        f"the median and range of {found['rounds']} rounds; load {load['before']} before, {load['max']} at most"
    )
    for name, system in found["systems"].items():
        console.print(f"{name} {system['version']} persists {system['persists']}")
        for why in ("unsupported", "error"):
            if why in system:
                console.print(f"{name}: {system[why]}")


def _number(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _ratio(found: dict[str, Any], kind: str, peer: str) -> str:
    median = found["ratios"][kind].get(peer)
    if median is None:
        return "-"
    low, high = found["ranges"][kind][peer]
    return f"{median:.3g} ({low:.3g}-{high:.3g})"


def _answer(system: dict[str, Any]) -> str:
    if "unsupported" in system:
        return "not supported"
    if "error" in system:
        return "failed"
    return {True: "right", False: "wrong", None: "not checked"}[system["match"]]
