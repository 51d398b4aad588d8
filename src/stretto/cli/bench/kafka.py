"""`stretto bench kafka`: exactly once from topic to topic under blows, and how fast a topic is read."""

from __future__ import annotations

import statistics
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stretto.bench.kafka import exactly, latency, realtime, throughput
from stretto.bench.kafka.broker import Broker, broker
from stretto.bench.kafka.connector import connector
from stretto.cli.options import Json
from stretto.cli.reporting import WRONG_ANSWER, note, print_figures, print_json, reported
from stretto.runtime.cluster import Cluster
from stretto.runtime.session import local_master, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORKERS, PARKED = 3, 1
RATIO_MIN = 0.5
SHARE_MAX = 0.2
"""Of the latency in Spark's real-time mode."""


def kafka(
    blows: Annotated[int, typer.Option(min=0, help="Number of blows; 0 leaves this part out.")] = 20,
    stretch: Annotated[int, typer.Option(min=1_000, help="Number of NEXMark events between two blows.")] = 40_000,
    events: Annotated[
        int, typer.Option(min=0, help="Number of events of the topic that is read for speed; 0 leaves this part out.")
    ] = 2_000_000,
    rounds: Annotated[
        int, typer.Option(min=1, help="Number of rounds; each reads that topic, and times records, in both ways.")
    ] = 3,
    rate: Annotated[
        int, typer.Option(min=0, help="Records per second from topic to topic at least once; 0 leaves this part out.")
    ] = 10_000,
    seconds: Annotated[float, typer.Option(min=1, help="For how long they are timed.")] = 10.0,
    real_time: Annotated[
        bool, typer.Option(help="Time them also through Spark's real-time mode, whose connector is fetched once.")
    ] = True,
    json: Json = False,
) -> None:
    """Run query 5 from a Kafka topic to a topic, exactly once, while workers are killed, hang and are cut off and the
    broker is restarted; then compare how fast a job reads a topic with a bare confluent-kafka consumer, and measure how
    long records take from topic to topic at least once, beside Spark's real-time mode.

    It starts a broker on this machine (scripts/ensure_kafka fetches it). The exit code is 1 if a row is missing, wrong
    or there twice, if the job reads less than half as fast as the consumer, or if a
    hundredth of its records take longer than a fifth of what they take in Spark."""
    found: dict[str, Any] = {}
    with (
        reported(),
        broker() as running,
        spark_session(
            "stretto bench kafka", local_master(WORKERS + PARKED), jars=connector(note) if rate and real_time else ()
        ) as spark,
    ):
        if blows:
            with Cluster.on_spark(spark, workers=WORKERS, parked=PARKED, lost_after="3 s") as cluster:
                dealt = exactly.run(spark, cluster, running, exactly.Blows(blows, stretch))
            found["exactly_once"] = asdict(dealt) | {"right": dealt.is_right}
            note(f"query 5 under {blows} blows: {'right' if dealt.is_right else dealt.complaint}")
        if events:
            with Cluster.on_spark(spark, workers=1) as cluster:
                rates = throughput.measure(cluster, running, events, rounds)
            found["throughput"] = {
                "bare_records_per_s": [round(each) for each in rates.bare],
                "records_per_s": [round(each) for each in rates.stretto],
                "ratio": round(rates.ratio, 2),
                "right": rates.ratio >= RATIO_MIN,
            }
        if rate:
            found["latency"] = _latencies(spark, running, rate, seconds, rounds if real_time else 1, real_time)
    (print_json if json else print_figures)(found)
    if not all(part.get("right", True) for part in found.values()):
        raise typer.Exit(WRONG_ANSWER)


def _latencies(
    spark: SparkSession, broker: Broker, rate: int, seconds: float, rounds: int, real_time: bool
) -> dict[str, Any]:
    """Returns the latencies of each round, and the median of their ratios."""
    ours, theirs = [], []
    for number in range(rounds):
        with Cluster.on_spark(spark, workers=1) as cluster:
            ours.append(latency.measure(cluster, broker, rate, seconds, number))
        if real_time:
            theirs.append(realtime.measure(spark, broker, rate, seconds, number))
    found: dict[str, Any] = {"stretto": [asdict(each) for each in ours]}
    if real_time:
        ratio = statistics.median(one.p99_ms / other.p99_ms for one, other in zip(ours, theirs, strict=True))
        found |= {"spark_real_time": [asdict(each) for each in theirs]}
        found |= {"ratio_p99": round(ratio, 3), "right": ratio <= SHARE_MAX}
    return found
