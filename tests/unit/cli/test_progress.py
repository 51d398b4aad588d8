"""Progress display: rates over the last seconds, and figures read from a job's metrics."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from stretto.actors.metrics import FunctionMetrics, LatencySketch
from stretto.api.slo import SLO
from stretto.cli import progress
from stretto.cli.progress import Display, RateMeter, Watch, functions_table, job_line, jobs_table, ms
from stretto.coordinator.records import JobStatus
from stretto.runtime.metrics import report


def job(status: JobStatus = JobStatus.RUNNING, progress: str | None = None) -> Any:
    """A job that read 100 rows and holds them in a window: its aggregate has sent nothing yet."""
    latency = LatencySketch()
    latency.add(5_000_000, 1)
    functions = {
        "bids": FunctionMetrics(rows_in=100, sent_to={"counts": 100}),
        "counts": FunctionMetrics(rows_in=100, messages_in=2, queued=3, latency=latency.export()),
    }
    ends = {"sources": [SimpleNamespace(name="bids")], "sinks": [SimpleNamespace(name="out")]}
    plan: Any = SimpleNamespace(**ends, slo=SLO(latency_ms=10.0))
    metrics = report(functions, 2.0, plan)
    return SimpleNamespace(status=status, progress=progress or status.value, plan=plan, metrics=lambda: metrics)


def shown(renderable: object) -> str:
    console = Console(file=io.StringIO(), width=120, color_system=None)
    console.print(renderable)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def test_a_rate_is_over_the_last_seconds() -> None:
    meter = RateMeter(0.0)
    assert meter.rate(100, 1.0) == 100.0
    assert meter.rate(300, 2.0) == 150.0
    assert meter.rate(300, 10.0) == 0.0


def test_only_sinks_count_as_output() -> None:
    sample = Watch("q5", job(), rows_total=400).sample(0.0)
    assert (sample.rows_in, sample.rows_out, sample.share) == (100, 0, 0.25)


def test_the_rate_of_an_ended_job_is_its_mean() -> None:
    assert Watch("q5", job(JobStatus.FINISHED)).sample(0.0).rate == 50.0


def test_a_job_that_is_deployed_says_what_it_waits_for() -> None:
    waits = "deploying: 1 of 2 members are ready, waiting for w1~1 to load 8.1 MB of code"
    sample = Watch("q5", job(JobStatus.DEPLOYING, waits)).sample(0.0)
    assert job_line(sample) == f"q5     {waits}"
    assert waits in " ".join(shown(functions_table(sample, {})).split())


@pytest.mark.parametrize("status", JobStatus)
def test_every_status_is_shown(status: JobStatus) -> None:
    sample = Watch("q5", job(status)).sample(0.0)
    assert status.value in shown(jobs_table([sample]))
    assert status.value in shown(functions_table(sample, {}))


def test_a_table_shows_each_job_with_its_objective() -> None:
    text = shown(jobs_table([Watch("q5", job(), 400).sample(0.0)]))
    for part in ("q5", "running", "25%", "5.0", "met"):
        assert part in text


def test_a_line_shows_the_same_without_a_terminal() -> None:
    line = job_line(Watch("q5", job(), 400).sample(0.0))
    assert "q5" in line
    assert "p99 5.0" in line


def test_functions_show_their_queues() -> None:
    text = shown(functions_table(Watch("app", job()).sample(0.0), {"bids": 50.0}))
    assert "latency objective met" in text
    assert [cell.strip() for cell in text.splitlines()[5].split("│")[1:6]] == ["counts", "1", "100", "0", "0"]


@pytest.mark.parametrize(("value", "text"), [(None, "-"), (1.26, "1.3"), (123.4, "123"), (12345.0, "12,345")])
def test_milliseconds(value: float | None, text: str) -> None:
    assert ms(value) == text


def test_a_display_prints_lines_now_and_then_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    console = Console(file=io.StringIO(), width=80)
    with Display(console, lambda: "table", lambda: "a line") as display:
        for _ in range(50):
            now[0] += 0.1
            display.tick()
    assert console.file.getvalue().splitlines() == ["a line"] * 2  # type: ignore[attr-defined]


def test_a_display_draws_in_place_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    console = Console(file=io.StringIO(), width=80, force_terminal=True)
    with Display(console, lambda: "table", lambda: "a line") as display:
        now[0] += 1.0
        display.tick()
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "table" in text
    assert "a line" not in text
