"""The page of a real cluster in a real browser: a slow function is marked as the cause, a job is stopped from there,
Prometheus can read the figures, and the report of the run says the same without a server. And that of `stretto demo`.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession
from tests.waiting import WAIT_S, eventually

from stretto import App, Cluster, Entity, Function, Reading, Source, SourceReader, UserError, objective, sinks
from stretto.actors.context import Context
from stretto.bench.page.browser import browser
from stretto.coordinator.records import JobStatus

ROOT = Path(__file__).parents[2]
SLOW_S = 0.05
PRESS_STOP = """
[...document.querySelectorAll(".control button")].find((each) => each.textContent === "Stop now").click()
"""
SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int64())])


class Endless(Source):
    """Numbers without an end, a few at a time."""

    schema = SCHEMA

    def reader(self, partition: int, partitions: int) -> SourceReader:
        return EndlessReader()

    def describe(self) -> str:
        return "numbers"


class EndlessReader(SourceReader):
    def read(self, now_ns: int, max_rows: int) -> Reading:
        numbers = list(range(self.position, self.position + min(20, max_rows)))
        self.position += len(numbers)
        batch = pa.record_batch([[number % 4 for number in numbers], numbers], SCHEMA)
        return Reading(batch, arrived_ns=now_ns)

    def available(self, now_ns: int) -> int | None:
        return self.position + 1_000_000

    def seek(self, position: int) -> None:
        self.position = position


class Passes(Function):
    """Passes on what it gets, and takes its time."""

    def __init__(self, takes_s: float) -> None:
        self._takes_s = takes_s

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        time.sleep(self._takes_s)
        ctx.send(batch)


def slow_app(name: str) -> App:
    """Returns an app of which `slow` takes far longer than all others."""
    app = App(name, parallelism=1)
    first = app.source("numbers", Endless()).key_by("k").apply(Passes(0), SCHEMA, name="first")
    slow = first.key_by("k").apply(Passes(SLOW_S), SCHEMA, name="slow")
    slow.key_by("k").apply(Passes(0), SCHEMA, name="last").sink(sinks.callback(print_nothing), name="out")
    return app


def print_nothing(batch: pa.RecordBatch) -> None:
    """The end of the rows."""


def ask(url: str, verb: str, path: str, body: Any = None, token: str | None = None) -> tuple[int, str]:
    address = urlsplit(url)
    headers = {"Content-Type": "application/json", "Origin": f"http://{address.netloc}"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    with closing(http.client.HTTPConnection(address.hostname or "", address.port, timeout=WAIT_S)) as connection:
        connection.request(verb, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def test_a_slow_function_is_shown_as_the_cause_and_its_job_is_stopped_from_the_page(
    spark: SparkSession, tmp_path: Path
) -> None:
    with Cluster.on_spark(spark, workers=2, elasticity="off", page="127.0.0.1:0") as cluster:
        address, _, token = cluster.page.url.partition("#token=")
        assert address == cluster.page.address
        assert token not in repr(cluster.page)
        job = cluster.submit(slow_app("congested"), checkpoint=tmp_path / "checkpoints", every=None)
        with browser() as chromium:
            chromium.open(cluster.page.url)
            chromium.until("document.querySelector('[data-job=congested]')")
            chromium.run("location.hash = '#/job/congested'")
            chromium.until("document.querySelector('.node[data-function=slow][data-pressure=cause]')", WAIT_S)
            assert chromium.run("document.querySelectorAll('.node[data-pressure=cause]').length") == 1
            chromium.until("document.querySelector('[data-cause=slow]')")
            told = json.loads(ask(address, "GET", "/api/jobs/congested")[1])
            assert [each["name"] for each in told["graph"]] == list(cluster.observation.jobs["congested"].functions)
            figures = {family.name for family in text_string_to_metric_families(ask(address, "GET", "/metrics")[1])}
            assert {
                "stretto_function_input_rows",
                "stretto_job_latency_seconds",
                "stretto_worker_busy_cores",
            } <= figures
            workers = json.loads(ask(address, "GET", "/api/overview")[1])["workers"]
            assert all(worker["memory_bytes"] > 10_000_000 for worker in workers if worker["busy"])
            stop = {"action": "stop", "job": "congested"}
            assert ask(address, "POST", "/api/control", stop)[0] == 401
            assert job.status is JobStatus.RUNNING
            status, answer = ask(address, "POST", "/api/control", {"action": "checkpoint", "job": "nobody"}, token)
            assert (status, json.loads(answer)["error"]["code"]) == (409, "not_done")
            taken = ask(address, "POST", "/api/control", {"action": "checkpoint", "job": "congested"}, token)
            assert taken == (
                200,
                json.dumps({"done": "checkpoint 1 of job 'congested' is complete"}, separators=(",", ":")),
            )
            chromium.until("document.querySelector('.checkpoints tbody th')?.textContent === '1'", WAIT_S)
            chromium.run(PRESS_STOP)
            chromium.until("document.querySelector('dialog[open]')")
            chromium.run("document.querySelector('dialog .confirm').click()")
            eventually(lambda: job.status is JobStatus.STOPPED, what="the end of the job")
            chromium.until("document.querySelector('.title .status').textContent === 'stopped'", WAIT_S)
            assert chromium.complaints == []
    report = tmp_path / "run.html"
    cluster.write_report(report)
    with browser() as chromium:
        chromium.open(report.as_uri() + "#/job/congested")
        chromium.until("document.querySelector('[data-held-back]')")
        assert "by slow for" in chromium.run("document.querySelector('[data-held-back]').textContent")
        assert chromium.requested[-1].startswith(report.as_uri())
        assert chromium.complaints == []


class Purse(Entity):
    coins: int = 10

    async def pay(self, coins: int) -> int:
        if self.coins < coins:
            raise ValueError("there are too few")
        self.coins -= coins
        return self.coins


def test_entities_and_a_changed_objective_are_on_the_page_of_a_real_cluster(spark: SparkSession) -> None:
    with Cluster.on_spark(spark, workers=2, elasticity="off", page="127.0.0.1:0") as cluster:
        address, _, token = cluster.page.url.partition("#token=")
        purses = cluster.submit(App("purses", entities=[Purse]))
        results = purses.map([Purse(f"p{number % 5}").pay(3) for number in range(20)], return_exceptions=True)
        refused = sum(isinstance(result, ValueError) for result in results)
        assert refused == 5, "each purse has coins for three payments"

        def told() -> Any:
            status, answer = ask(address, "GET", "/api/jobs/purses")
            return json.loads(answer)["entities"] if status == 200 else None

        eventually(lambda: (found := told()) is not None and found["committed"] == 15, what="all that was counted")
        assert told()["aborted_by"] == {"ValueError": 5}
        assert told()["entities"] == 5
        assert (
            'stretto_entity_aborted_transactions_total{job="purses",reason="ValueError"} 5.0'
            in ask(address, "GET", "/metrics")[1].splitlines()
        )
        job = cluster.submit(slow_app("promising"))
        eventually(lambda: job.status is JobStatus.RUNNING, what="the job")
        assert job.objective == objective()
        wanted = {"action": "objective", "job": "promising", "latency_ms": 250, "priority": 2}
        status, answer = ask(address, "POST", "/api/control", wanted, token)
        assert (status, json.loads(answer)) == (
            200,
            {"done": "job 'promising' promises p99 latency <= 250 ms; priority 2"},
        )
        assert job.objective == objective(latency="250 ms", priority=2)

        def shown() -> Any:
            status, answer = ask(address, "GET", "/api/jobs/promising")
            return json.loads(answer)["objective"]["latency_ms"] if status == 200 else None

        eventually(lambda: shown() == 250, what="the objective on the page")
        assert [str(record.decision) for record in job.decisions()] == ["promise p99 latency <= 250 ms; priority 2"]
        job.stop()


def test_a_cluster_without_a_page_says_how_to_get_one(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="this is no address for the page"):
        Cluster.on_spark(spark, workers=1, page="everywhere")
    with Cluster.on_spark(spark, workers=1) as cluster:
        with pytest.raises(UserError, match="this cluster has no page"):
            _ = cluster.page
        with pytest.raises(UserError, match="nothing was recorded"):
            cluster.write_report(tmp_path / "run.html")


@contextmanager
def demo(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Runs `stretto demo`, and yields it with the lines of its stderr so far."""
    process = subprocess.Popen(
        [sys.executable, "-m", "stretto", "demo", *arguments],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    lines: list[str] = []
    assert process.stderr is not None
    reader = threading.Thread(target=lambda: lines.extend(process.stderr or ()), daemon=True)
    reader.start()
    try:
        yield process, lines
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        reader.join(WAIT_S)
        process.stderr.close()


def test_the_demo_prints_the_address_of_its_page_and_keeps_it_open(tmp_path: Path) -> None:
    def page_of(lines: list[str]) -> str | None:
        found = [re.search(r"http://\S+#token=\S+", line) for line in lines]
        return next((each[0] for each in found if each), None)

    with demo("--events", "20000", "--stay", "--page-at", "127.0.0.1:0", "--report", str(tmp_path / "r.html")) as (
        process,
        lines,
    ):
        url = eventually(lambda: page_of(lines), what="the address of the page")
        with browser() as chromium:
            chromium.open(url)
            chromium.until("document.querySelectorAll('[data-job]').length === 6", WAIT_S)
            eventually(lambda: any("stays open" in line for line in lines), what="the end of the demo")
            chromium.until("document.querySelectorAll('[data-job].ended').length === 6", WAIT_S)
            told = json.loads(ask(url.partition("#")[0], "GET", "/api/overview")[1])
            assert {job["name"]: job["status"] for job in told["jobs"]} == dict.fromkeys(
                ("q1", "q4", "q5", "q7", "q8", "q11"), "finished"
            )
            assert {job["rows_total"] > 0 for job in told["jobs"]} == {True}
            assert chromium.complaints == []
            process.send_signal(signal.SIGINT)
            assert process.wait(WAIT_S) == 0
            chromium.until("stretto.store.connection === 'ended' || stretto.store.connection === 'lost'")
    assert sum("token=" in line for line in lines) == 1, "the token is printed once"
    assert "recorded" in (tmp_path / "r.html").read_text("utf-8")
