"""A failure in one job stays in it: the error names the cause and the fix, and the other jobs keep running.

Also here because they need real workers: backpressure, stopping and draining, and the function API over the wire.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.waiting import WAIT_S

from stretto import App, Clock, Cluster, Context, Function, Job, MapState, ValueState, sinks, sources, tumbling
from stretto.actors.channel import CREDITS_PER_CHANNEL, GRANT_AT
from stretto.api.memory import MemorySource
from stretto.api.stream import Stream
from stretto.bench.gates import Gate
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.generator import generate
from stretto.bench.nexmark.source import NexmarkSource
from stretto.coordinator.records import JobStatus
from stretto.errors import ClusterError, FunctionError, SourceError, StrettoError
from stretto.runtime import slots
from stretto.runtime.codec import FRAME_BYTES_MAX
from stretto.scheduling import OutChannel, Pending, Strategy

EVENTS = 2_000
BATCH = 100
"""The number of events that a source reads at once; 92 of 100 are bids."""

Eventually = Callable[..., Any]


@pytest.fixture(scope="module")
def cluster(spark: SparkSession) -> Iterator[Cluster]:
    with Cluster.on_spark(spark, workers=2) as made:
        yield made


def bids(
    name: str, events: int | None = EVENTS, rate: float | None = None, parallelism: int | None = None
) -> tuple[App, Stream]:
    app = App(name, engine="actors", parallelism=parallelism, batch_rows=BATCH)
    source = NexmarkSource("bid", NexmarkConfig(events=events), rate, ["auction", "price", "dateTime"], block=BATCH)
    return app, app.source("bids", source, time="dateTime")


def expected_auctions(events: int = EVENTS) -> Counter[int]:
    return Counter(generate(NexmarkConfig(), "bid", 0, events, ["auction"]).column("auction").to_pylist())


def auctions(job: Job) -> Counter[int]:
    return Counter(job.results("out").column("auction").to_pylist())


class Bystander:
    """A job that runs at the same time as the failing one, and must return its result."""

    def __init__(self, cluster: Cluster) -> None:
        app, stream = bids("bystander", rate=4_000.0)
        stream.sink(sinks.collect(), name="out")
        self._job = cluster.submit(app)

    def unharmed(self) -> bool:
        assert self._job.wait(WAIT_S).status is JobStatus.FINISHED
        return auctions(self._job) == expected_auctions()


def failure_of(cluster: Cluster, app: App, kind: type[StrettoError]) -> str:
    """Returns the text of the error that the app fails with, while a bystander runs to its end."""
    workers = cluster.workers
    bystander = Bystander(cluster)
    job = cluster.submit(app)
    with pytest.raises(kind) as caught:
        job.wait(WAIT_S)
    assert type(caught.value) is kind
    assert job.status is JobStatus.FAILED
    assert job.error is caught.value
    assert bystander.unharmed()
    assert cluster.workers == workers, "no worker was lost"
    return str(caught.value)


# Functions that fail.


def look_up(prices: list[int]) -> int:
    return {}[prices[0]]  # type: ignore[no-any-return]


def enrich(batch: pa.RecordBatch) -> pa.RecordBatch:
    if batch.num_rows:
        look_up(batch.column("price").to_pylist())
    return batch


def test_a_function_that_raises_fails_its_job_with_the_users_traceback(cluster: Cluster) -> None:
    app, stream = bids("raises", parallelism=1)
    stream.map(enrich).sink(sinks.collect(), name="out")
    text = failure_of(cluster, app, FunctionError)
    first = generate(NexmarkConfig(), "bid", 0, BATCH, ["auction", "price", "dateTime"]).to_pylist()[0]
    assert text.startswith("function 'enrich' raised KeyError")
    assert Path(__file__).name in text
    assert "in enrich" in text
    assert "return {}[prices[0]]" in text, "the line that raised"
    assert "stretto/operators" not in text, "the traceback begins in the user's code"
    assert "the batch began with" in text
    assert str(first) in text
    assert "89 more rows" in text


def test_a_function_after_a_shuffle_is_named_too(cluster: Cluster) -> None:
    class Picky(Function):
        def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
            raise ValueError("this one I do not like")

    app, stream = bids("picky")
    stream.key_by("auction").apply(Picky(), "auction long", name="picky").sink(sinks.collect(), name="out")
    text = failure_of(cluster, app, FunctionError)
    assert text.startswith("function 'picky' raised ValueError: this one I do not like")
    assert "in process" in text
    assert "the batch began with" in text


def test_a_function_that_cannot_open_fails_its_job(cluster: Cluster) -> None:
    class Unopened(Function):
        def open(self, ctx: Context) -> None:
            raise ConnectionError("no database here")

    app, stream = bids("unopened")
    stream.apply(Unopened(), "auction long", name="unopened").sink(sinks.collect(), name="out")
    text = failure_of(cluster, app, FunctionError)
    assert text.startswith("function 'unopened' raised ConnectionError: no database here")


def test_a_function_that_returns_the_wrong_schema_says_what_was_declared(cluster: Cluster) -> None:
    def stringly(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({"auction": batch.column("auction").cast(pa.string())})

    app, stream = bids("wrong-schema")
    stream.map(stringly, "auction long").sink(sinks.collect(), name="out")
    text = failure_of(cluster, app, FunctionError)
    assert text == (
        "function 'stringly' returned the wrong schema: column 'auction' is declared int64 and was returned as string\n"
        "  Correct the function or its declared schema."
    )


def test_doubles_where_integers_are_declared_are_not_read_as_integers(cluster: Cluster) -> None:
    class Careless(Function):
        def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
            ctx.send(pa.record_batch({"auction": batch.column("auction").cast(pa.float64())}))

    app, stream = bids("doubles")
    stream.key_by("auction").apply(Careless(), "auction long", name="careless").sink(sinks.collect(), name="out")
    text = failure_of(cluster, app, FunctionError)
    assert text.startswith(
        "function 'careless' sent the wrong schema: column 'auction' is declared int64 and was sent as double\n"
    )


def test_an_error_in_a_batch_with_times_after_the_year_9999_fails_its_job_and_not_the_worker(cluster: Cluster) -> None:
    def refuse(batch: pa.RecordBatch) -> pa.RecordBatch:
        raise Unspeakable

    late = pa.record_batch([pa.array([253_402_300_800_000_000, 2**63 - 1], pa.timestamp("us", "UTC"))], names=["t"])
    app = App("late", engine="actors")
    rows = app.source("rows", sources.memory(late), time="t")
    rows.map(refuse, "t timestamp").sink(sinks.collect(), name="out")
    text = failure_of(cluster, app, FunctionError)
    assert text.startswith("function 'refuse' raised Unspeakable: <Unspeakable that cannot be shown: SystemExit>\n")
    assert "10000-01-01" in text


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise SystemExit(1)


def test_a_batch_that_is_longer_than_a_frame_fails_its_job_and_not_the_worker(cluster: Cluster) -> None:
    rows = FRAME_BYTES_MAX // 8 + 1

    def swell(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({"n": pa.array(np.zeros(rows if batch.num_rows else 0, np.int64))})

    app, stream = bids("swells", events=50, parallelism=1)
    stream.flat_map(swell).sink(sinks.collect(), name="out")
    text = failure_of(cluster, app, FunctionError)
    assert text.startswith("function 'bids': a batch is longer than a frame may be")
    assert f"at most {FRAME_BYTES_MAX}" in text
    assert "Use smaller batches" in text


def test_a_critical_message_that_is_no_plain_data_fails_its_job_and_not_the_worker(cluster: Cluster) -> None:
    class Careless(Function):
        def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
            ctx.send_critical("here", threading.get_ident)

    app, stream = bids("careless")
    stream.apply(Careless(), "auction long", name="careless").sink(sinks.collect(), name="out")
    text = failure_of(cluster, app, FunctionError)
    assert text.startswith("function 'careless': a message cannot be sent: TypeError")
    assert "Critical messages and schedule requests carry plain data" in text


def test_a_callback_that_raises_fails_its_job(cluster: Cluster) -> None:
    def refuse(row: dict[str, Any]) -> None:
        raise PermissionError(f"not allowed to store {row['auction']}")

    app, stream = bids("refused")
    stream.sink(sinks.callback(refuse, per="row"), name="store")
    text = failure_of(cluster, app, FunctionError)
    assert text.startswith("function 'store' raised PermissionError: not allowed to store ")
    assert "in refuse" in text


# Sources that fail.


def test_a_broken_line_is_named_by_file_and_row(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "orders.jsonl"
    lines = [json.dumps({"id": i, "text": "x" * 200}) for i in range(20_000)]
    lines[15_000] = '{"id": 15000, "text": '
    path.write_text("\n".join(lines))
    app = App("broken-line", engine="actors", batch_rows=BATCH)
    app.source("orders", sources.jsonl(path, schema="id long, text string")).sink(sinks.null())
    text = failure_of(cluster, app, SourceError)
    assert str(path) in text
    assert "15001" in text, "lines are counted from 1, as editors do"


def test_a_broken_row_group_is_named(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "orders.parquet"
    table = pa.table({"id": pa.array(np.random.default_rng(7).integers(0, 2**60, 40_000))})
    pq.write_table(table, path, row_group_size=10_000, compression="zstd", use_dictionary=False)
    column = pq.ParquetFile(path).metadata.row_group(2).column(0)
    content = bytearray(path.read_bytes())
    begin = column.data_page_offset
    content[begin : begin + column.total_compressed_size] = bytes(column.total_compressed_size)
    path.write_bytes(content)
    app = App("broken-group", engine="actors", parallelism=1)
    app.source("orders", sources.parquet(path)).sink(sinks.null())
    text = failure_of(cluster, app, SourceError)
    assert str(path) in text
    assert "row group 2" in text


# Missing resources.


def test_more_workers_than_slots_says_how_many_there_are(spark: SparkSession) -> None:
    with pytest.raises(ClusterError, match="9 workers were asked for, and Spark has 8 slots") as caught:
        Cluster.on_spark(spark, workers=9)
    assert "Use workers=8 or fewer" in str(caught.value)
    with pytest.raises(ClusterError, match="a cluster needs at least one worker"):
        Cluster.on_spark(spark, workers=0)


def test_what_needs_a_free_slot_says_so_when_there_is_none(
    spark: SparkSession, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "slots_of", lambda spark: 2)  # As if Spark had only those of the workers.
    app = App("frame", engine="actors")
    app.source("numbers", sources.dataframe(spark.range(10))).sink(sinks.collect(), name="out")
    with pytest.raises(ClusterError, match="source 'numbers' of app 'frame' needs a free Spark slot") as caught:
        cluster.submit(app)
    assert "local[3]" in str(caught.value)
    app, stream = bids("micro")
    stream.select("auction").sink(sinks.collect(), name="out")
    with pytest.raises(ClusterError, match="the micro-batch engine of app 'micro' needs a free Spark slot"):
        cluster.submit(app, engine="microbatch")
    app.engine = type(app.engine).AUTO
    job = cluster.submit(app)
    assert "hold all of Spark's slots" in job.why
    assert auctions(job.wait(WAIT_S)) == expected_auctions()
    with pytest.raises(ClusterError, match=r"job.dataframe\(\) of job 'micro.*' needs a free Spark slot"):
        job.dataframe("out")
    with pytest.raises(ClusterError, match="the batch twin of app 'micro' needs a free Spark slot"):
        app.to_spark(spark)
    with pytest.raises(ClusterError, match="reading table 'names', a DataFrame, needs a free Spark slot"):
        app.table("names", spark.range(10))


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_a_dataframe_feeds_an_app_when_a_slot_is_free(spark: SparkSession, cluster: Cluster) -> None:
    app = App("frame", engine="actors")
    app.source("numbers", sources.dataframe(spark.range(1_000))).filter("id % 2 = 0").sink(sinks.collect(), name="out")
    job = cluster.submit(app).wait(WAIT_S)
    assert sorted(job.results("out").column("id").to_pylist()) == list(range(0, 1_000, 2))


# Backpressure.


def test_a_slow_sink_slows_the_sources_and_nothing_is_lost(cluster: Cluster, eventually: Eventually) -> None:
    """As slow as can be: it takes a batch only when the test says so."""
    batches, rows = 400, 92
    consumed: Counter[int] = Counter()
    turns = threading.Semaphore(0)

    def slowly(batch: pa.RecordBatch) -> None:
        assert turns.acquire(timeout=WAIT_S)
        consumed.update(batch.column("auction").to_pylist())

    app, stream = bids("slow", events=batches * BATCH, parallelism=2)
    stream.sink(sinks.callback(slowly), name="slow")
    job = cluster.submit(app)
    # Two channels into the sink, each with its credits, and one batch in progress in each source and the sink.
    bound = (2 * CREDITS_PER_CHANNEL + 3) * rows
    least = 2 * (CREDITS_PER_CHANNEL - GRANT_AT) * rows  # The sink may hold back some credits before it returns them.
    for taken in range(0, batches // 2, 40):
        eventually(lambda taken=taken: job.metrics().rows_in >= least + taken * rows, what="sources that run ahead")
        assert job.metrics().rows_in - consumed.total() <= bound, "until they have to wait"
        turns.release(40)
        eventually(lambda taken=taken: consumed.total() == (taken + 40) * rows, what="forty more batches")
    turns.release(batches)
    assert job.wait(WAIT_S).status is JobStatus.FINISHED
    assert consumed == expected_auctions(batches * BATCH)
    assert job.metrics().rows_in == job.metrics().rows_out == consumed.total()


# Stopping.


def windowed(name: str) -> App:
    app, stream = bids(name, events=None, rate=5_000.0, parallelism=2)
    counts = stream.key_by("auction").window(tumbling("1 hour")).aggregate(n="count(*)")
    counts.sink(sinks.collect(), name="out")
    stream.sink(sinks.collect(), name="read")
    return app


def test_stopping_ends_an_endless_job_at_once(cluster: Cluster, eventually: Eventually) -> None:
    job = cluster.submit(windowed("endless"))
    eventually(lambda: job.metrics().rows_in > 1_000)
    assert job.stop().status is JobStatus.STOPPED
    assert job.wait(0).results("out").num_rows == 0, "no window was complete"
    rows = job.metrics().rows_in
    assert rows > 1_000
    assert Bystander(cluster).unharmed()
    assert job.metrics().rows_in == rows, "it reads no more"
    assert job.stop().status is JobStatus.STOPPED


def test_draining_ends_an_endless_job_with_all_of_its_windows(cluster: Cluster, eventually: Eventually) -> None:
    job = cluster.submit(windowed("drained"))
    # Two partitions read blocks in turn, and may differ in progress.
    certain = expected_auctions(BATCH * 2)
    eventually(lambda: certain <= Counter(job.updates("read").column("auction").to_pylist()), what="both first blocks")
    assert job.stop(drain=True).status is JobStatus.FINISHED
    rows = job.metrics().rows_in
    result = job.results("out")
    assert sum(result.column("n").to_pylist()) == rows
    counts = dict(zip(result.column("auction").to_pylist(), result.column("n").to_pylist(), strict=True))
    assert len(counts) == result.num_rows
    assert counts == Counter(job.results("read").column("auction").to_pylist())
    assert certain <= Counter(counts)


def test_two_jobs_of_one_app_have_different_names(cluster: Cluster) -> None:
    app, stream = bids("twice")
    stream.sink(sinks.collect(), name="out")
    jobs = [cluster.submit(app), cluster.submit(app)]
    assert [job.name for job in jobs] == ["twice", "twice#2"]
    assert [auctions(job.wait(WAIT_S)) for job in jobs] == [expected_auctions()] * 2


# The function API, over the wire.

SECOND_US = 1_000_000
READINGS = "t timestamp, key string, v long"


class Tally(Function):
    """Sums per key, with a timer of each clock and a critical message at each reading of 0."""

    seen = ValueState(0)
    sums: MapState[str, int] = MapState()
    ticks = ValueState(0)

    def open(self, ctx: Context) -> None:
        ctx.set_timer(ctx.now_ns, "tick", Clock.PROCESSING)
        ctx.set_timer(50 * SECOND_US, "fifty")
        ctx.set_timer(60 * SECOND_US, "never")
        ctx.cancel_timer(60 * SECOND_US, "never")

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        ctx.send(batch)
        self.seen.set(self.seen.get() + batch.num_rows)
        values = batch.column("v").to_pylist()
        for key, value in zip(batch.column("key").to_pylist(), values, strict=True):
            self.sums[key] = (self.sums.get(key) or 0) + value
        ctx.counts["batches"] = ctx.counts.get("batches", 0) + 1
        if 0 in values:
            ctx.send_critical("checked", {"seen": self.seen.get(), "sums": dict(self.sums.items())})

    def on_timer(self, tag: Any, due: int, ctx: Context) -> None:
        if tag == "tick":
            self.ticks.set(self.ticks.get() + 1)
            ctx.counts["ticks"] = self.ticks.get()
            ctx.set_timer(ctx.now_ns + 5_000_000, "tick", Clock.PROCESSING)
            return
        row = {"tag": tag, "due": due, "seen": self.seen.get(), "before": ctx.watermark_us < due}
        ctx.send(pa.RecordBatch.from_pylist([row], schema=_schema(timers)), "timers")

    def on_end(self, ctx: Context) -> None:
        rows = [{"key": key, "sum": total, "ticks": self.ticks.get()} for key, total in self.sums.items()]
        ctx.send(pa.RecordBatch.from_pylist(rows, schema=_schema(totals)), "totals")


timers = {"tag": pa.string(), "due": pa.int64(), "seen": pa.int64(), "before": pa.bool_()}
totals = {"key": pa.string(), "sum": pa.int64(), "ticks": pa.int64()}
checks = {"name": pa.string(), "seen": pa.int64(), "sum_a": pa.int64(), "arrived": pa.int64()}


def _schema(fields: dict[str, pa.DataType]) -> pa.Schema:
    return pa.schema(list(fields.items()))


class Witness(Function):
    """Records how many rows had arrived when a critical message did."""

    rows = ValueState(0)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        self.rows.set(self.rows.get() + batch.num_rows)

    def on_critical(self, name: str, payload: Any, ctx: Context) -> None:
        row = {"name": name, "seen": payload["seen"], "sum_a": payload["sums"]["a"], "arrived": self.rows.get()}
        ctx.send(pa.RecordBatch.from_pylist([row], schema=_schema(checks)))


def ticks_of(job: Job) -> int:
    tally = job.metrics().functions.get("tally")
    return 0 if tally is None else tally.counts.get("ticks", 0)


def test_state_timers_critical_messages_and_outputs_on_real_workers(
    cluster: Cluster, tmp_path: Path, eventually: Eventually
) -> None:
    def readings(start: int, values: list[int]) -> pa.RecordBatch:
        times = [(start + i) * SECOND_US for i in range(len(values))]
        return pa.record_batch(
            {
                "t": pa.array(times, pa.timestamp("us", tz="UTC")),
                "key": ["a" if i % 2 == 0 else "b" for i in range(len(values))],
                "v": pa.array(values, pa.int64()),
            }
        )

    batches = [readings(0, [1] * 10), readings(20, [0, 2, 3]), readings(100, [5] * 4), readings(110, [0, 7])]
    spaced = [item for batch in batches for item in (batch, MemorySource.Pause(40))]
    gate = Gate(tmp_path / "gate", 17 / 19)  # Before the last batch.
    app = App("api", engine="actors", parallelism=1)
    stream = app.source("readings", gate.before(sources.memory(spaced, READINGS)), time="t")
    outputs = {"timers": _schema(timers), "totals": _schema(totals)}
    tally = stream.apply(Tally(), READINGS, outputs=outputs, name="tally")
    tally.apply(Witness(), _schema(checks), name="witness").sink(sinks.collect(), name="checks")
    tally.output("timers").sink(sinks.collect(), name="timers")
    tally.output("totals").sink(sinks.collect(), name="totals")
    tally.sink(sinks.collect(), name="passed")
    job = cluster.submit(app)
    eventually(lambda: ticks_of(job) >= 3, what="three timers of processing time")
    gate.open()
    job.wait(WAIT_S)

    assert job.results("passed").num_rows == 19
    assert job.results("checks").to_pylist() == [
        {"name": "checked", "seen": 13, "sum_a": 5 + 0 + 3, "arrived": 13},
        {"name": "checked", "seen": 19, "sum_a": 5 + 3 + 10 + 0, "arrived": 19},
    ], "a critical message arrives after all rows that were sent before it, and before those after it"
    assert job.results("timers").to_pylist() == [{"tag": "fifty", "due": 50 * SECOND_US, "seen": 17, "before": True}]
    rows = {row["key"]: row for row in job.results("totals").to_pylist()}
    assert (rows["a"]["sum"], rows["b"]["sum"]) == (5 + 3 + 10 + 0, 5 + 2 + 10 + 7)
    assert rows["a"]["ticks"] >= 3, "processing time passed while the source paused"
    assert job.metrics().functions["tally"].counts["batches"] == 4


class LosesThread(Strategy):
    """A user's strategy: it asks before each batch, and raises at the third reply, with batches that have no place."""

    def __init__(self) -> None:
        self.asked: dict[int, Pending] = {}
        self.replies = 0

    def wants_direct(self, channel: OutChannel) -> bool:
        return True

    def prepare_send(self, channel: OutChannel, direct: list[OutChannel], pending: Pending) -> OutChannel | None:
        place = direct[0].peer or self.desk.member
        self.asked[self.desk.request(place, channel.receiver, "may I?")] = pending
        return None

    def on_reply(self, sender: str, number: int, content: Any) -> None:
        pending = self.asked.pop(number)
        self.replies += 1
        if self.replies == 3:
            raise RuntimeError("I have lost the thread")
        self.desk.send(pending, pending.channel)


def test_a_strategy_that_raises_is_reported_and_neither_the_job_nor_its_worker_ends(
    cluster: Cluster, tmp_path: Path, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    events = 10_000
    workers = cluster.workers
    bystander = Bystander(cluster)
    gate = Gate(tmp_path / "gate")
    app = App("thread", engine="actors", batch_rows=BATCH)
    source = NexmarkSource("bid", NexmarkConfig(events=events), None, ["auction", "dateTime"], block=BATCH)
    stream = app.source("bids", gate.before(source), time="dateTime")
    counted = stream.key_by("auction").window(tumbling("1 second")).aggregate(n="count(*)", name="counts")
    counted.sink(sinks.collect(), name="out")
    app.spread("counts", lessees=1, strategy=LosesThread())
    with caplog.at_level("WARNING", "stretto.job"):
        job = cluster.submit(app)
        # A batch at a time, so that senders hear of lessees while there is still something to send.
        for read in range(BATCH, events, BATCH):
            gate.allow(read / events)
            eventually(lambda read=read: job.metrics().rows_in >= read * 92 // 100, what=f"{read} events")
            if job.warnings:
                break
        gate.open()
        job.wait(WAIT_S)
    assert job.status is JobStatus.FINISHED
    found: Counter[int] = Counter()
    for row in job.results("out").to_pylist():
        found[row["auction"]] += row["n"]
    assert found == expected_auctions(events)
    assert bystander.unharmed()
    assert cluster.workers == workers, "no worker was lost"
    assert job.warnings
    for warning in job.warnings:
        assert warning.function == "counts"
        assert warning.fact.endswith("LosesThread was given up in on_reply")
        assert "I have lost the thread" in warning.traceback
    assert len({warning.worker for warning in job.warnings}) == len(job.warnings)
    assert "I have lost the thread" in caplog.text


# Deployment.


def test_a_table_is_shipped_once_and_the_handle_says_what_the_job_waits_for(
    cluster: Cluster, eventually: Eventually, tmp_path: Path
) -> None:
    gate = tmp_path / "open"

    class Waiting(Function):
        def open(self, ctx: Context) -> None:
            while not gate.exists():
                time.sleep(0.01)

        def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
            ctx.send(batch.select(["c0"]))

    table = pa.table({f"c{number}": np.arange(20_000) for number in range(50)})
    app = App("wide", engine="actors")
    rows = app.source("rows", sources.memory(table))
    rows.apply(Waiting(), "c0 long", name="waiting").sink(sinks.collect(), name="out")
    job = cluster.submit(app)
    eventually(lambda: "of 3 members are ready, waiting for" in job.progress and "to open functions" in job.progress)
    assert job.progress in repr(job)
    with pytest.raises(TimeoutError, match=r"is still deploying: \d of 3 members are ready"):
        job.wait(0)
    size = sum(path.stat().st_size for path in Path(cluster._code.directory).iterdir())
    assert size < 2 * table.nbytes, "each of the 20 batches would carry the whole table"
    gate.touch()
    found = job.wait(WAIT_S).results("out").column("c0").to_pylist()
    assert sorted(found) == list(range(20_000))
    assert job.progress == "finished"
