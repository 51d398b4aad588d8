"""`stretto nexmark`: its options and its help, and the request that they make."""

from __future__ import annotations

from typing import Annotated

import typer

from stretto.api.engines import Engine
from stretto.api.slo import objective
from stretto.bench.elastic.shuffling import SHUFFLING
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.queries import Workload
from stretto.bench.nexmark.run import chosen
from stretto.cli.nexmark import Request, query_list, run_in_turn, run_twins
from stretto.cli.options import Json, Workers
from stretto.cli.reporting import reported
from stretto.errors import UserError
from stretto.scheduling import STRATEGIES

SPREAD_LESSEES = 4
SHUFFLE_RATE = 20_000.0
NEXMARK_EXAMPLES = (
    f"{query_list()}\n\nExamples:  [bold]stretto nexmark q5 --verify[/]   "
    "[bold]stretto nexmark all --events 200000 --workers 2 --seed 7 --verify --json[/]"
)

Queries = Annotated[
    list[str], typer.Argument(metavar="QUERY...", help="Queries: q0 to q22 (listed below), or all.", show_default=False)
]
Events = Annotated[int, typer.Option(min=1, help="Number of events: persons, auctions and bids.")]
Seed = Annotated[int, typer.Option(help="Random seed; equal seeds give equal events.")]
Verify = Annotated[bool, typer.Option("--verify", help="Compare every row with Spark SQL's answer.")]
Parallelism = Annotated[
    int | None, typer.Option(min=1, help="Partitions per function; by default the number of workers.")
]
Batch = Annotated[int, typer.Option(min=1, help="Maximum number of events that a source reads at once.")]
Disorder = Annotated[
    float, typer.Option(min=0, metavar="SECONDS", help="Let events arrive out of order by up to this much.")
]
Rate = Annotated[float | None, typer.Option(min=0.001, help="Events to send per second; by default full speed.")]
EventRate = Annotated[int, typer.Option(min=1, help="Events per second of event time (density of the stream).")]
OnEngine = Annotated[Engine, typer.Option(help="Engine that runs the queries.")]
Twin = Annotated[bool, typer.Option("--twin", help="Run each query as its batch twin, a DataFrame over all events.")]
Sql = Annotated[bool, typer.Option("--sql", help="Run the queries that are written as SQL text.")]
Zone = Annotated[str, typer.Option(metavar="ZONE", help="Time zone of the queries and of Spark's answers.")]
Latency = Annotated[
    str | None, typer.Option(metavar="DURATION", help="Objective for the p99 latency, such as '200 ms'.")
]
Timeout = Annotated[float, typer.Option(min=1, help="Fail a query after this many seconds.")]
Spread = Annotated[
    bool,
    typer.Option(
        "--spread", help=f"Run functions that allow it on {SPREAD_LESSEES} lessees (extra instances) per partition."
    ),
]
Placement = Annotated[
    str | None,
    typer.Option(help=f"With --spread, placement of messages: {', '.join(STRATEGIES)}; by default round robin."),
]
Elastic = Annotated[bool, typer.Option("--elastic", help="Let keyed functions have their shards on several workers.")]
ShuffleShards = Annotated[
    bool,
    typer.Option(
        "--shuffle-shards",
        help="With --elastic, move random shards to random workers every 50 to 200 ms. Without --rate, "
        f"{SHUFFLE_RATE:,.0f} events per second are sent, so that there is time for it.",
    ),
]


def nexmark(
    queries: Queries,
    events: Events = 200_000,
    workers: Workers = 2,
    seed: Seed = 7,
    verify: Verify = False,
    json: Json = False,
    parallelism: Parallelism = None,
    batch: Batch = 4096,
    disorder: Disorder = 0.0,
    rate: Rate = None,
    event_rate: EventRate = 10_000,
    engine: OnEngine = Engine.ACTORS,
    twin: Twin = False,
    timezone: Zone = "UTC",
    latency: Latency = None,
    timeout: Timeout = 600.0,
    spread: Spread = False,
    strategy: Placement = None,
    elastic: Elastic = False,
    shuffle_shards: ShuffleShards = False,
    sql: Sql = False,
) -> None:
    """Run NEXMark queries (an online auction) and print throughput and latency; --verify checks the answers.

    --json prints one object per query: query, events, rows, match (true only after a row-by-row comparison with Spark
    SQL), events_per_s, latency_ms, workers, spark_app_id and more. The exit code is 1 when an answer is wrong or a
    query fails. A query that the micro-batch engine cannot express is reported with the reason and does not count as a
    mismatch. --spread starts at least one worker more than there are lessees, so that each lessee has a worker. With
    --elastic, an object has shards_moved too."""
    with reported():
        if shuffle_shards and not elastic:
            raise UserError("--shuffle-shards needs --elastic", "no function has shards that can move")
        workload = Workload(
            NexmarkConfig(seed=seed, events=events, event_rate=event_rate, disorder_s=disorder),
            rate or (SHUFFLE_RATE if shuffle_shards else None),
            parallelism,
            batch,
            slo=objective(latency=latency) if latency else None,
            engine=engine.value,
            lessees=SPREAD_LESSEES if spread else 0,
            strategy=strategy,
            elastic=elastic,
            timezone=timezone,
            sql=sql,
        )
        enough = max(workers, SPREAD_LESSEES + 1) if spread else workers
        elasticity = SHUFFLING if shuffle_shards else "auto"
        run = run_twins if twin else run_in_turn
        code = run(Request(chosen(queries), workload, enough, verify, json, timeout, elasticity))
    raise typer.Exit(code)
