"""stretto: many stateful streaming jobs on one Spark cluster, each with a service-level objective.

from stretto import App, Cluster, objective, sinks, sources, tumbling

app = App("highest", slo=objective(latency="200 ms"))
bids = app.source("bids", sources.parquet("bids/"), time="dateTime", delay="2 seconds")
bids.key_by("auction").window(tumbling("10 seconds")).aggregate(high="max(price)").sink(sinks.collect())

with Cluster.on_spark(spark, workers=2) as cluster:
    print(cluster.submit(app).wait().results())
"""

from stretto import sinks, sources, streams
from stretto.actors.context import Clock, Context
from stretto.actors.function import Function
from stretto.actors.sink import Sink, SinkWriter
from stretto.actors.source import Reading, Source, SourceReader
from stretto.api.app import App
from stretto.api.slo import SLO, objective
from stretto.api.stream import GroupingSetsStream, KeyedStream, Stream, WindowedStream
from stretto.api.udfs import pandas_udf, udf
from stretto.client import Connection, connect
from stretto.errors import StrettoError, UserError
from stretto.operators.user_aggregate import UserAggregate
from stretto.operators.windows import hopping, session, span, tumbling
from stretto.runtime.cluster import Cluster
from stretto.runtime.job import Job
from stretto.sharing.state import SharedState
from stretto.state import ListState, MapState, ValueState
from stretto.transactions.entity import Entity, reads

__all__ = [
    "SLO",
    "App",
    "Clock",
    "Cluster",
    "Connection",
    "Context",
    "Entity",
    "Function",
    "GroupingSetsStream",
    "Job",
    "KeyedStream",
    "ListState",
    "MapState",
    "Reading",
    "SharedState",
    "Sink",
    "SinkWriter",
    "Source",
    "SourceReader",
    "Stream",
    "StrettoError",
    "UserAggregate",
    "UserError",
    "ValueState",
    "WindowedStream",
    "connect",
    "hopping",
    "objective",
    "pandas_udf",
    "reads",
    "session",
    "sinks",
    "sources",
    "span",
    "streams",
    "tumbling",
    "udf",
]
