"""Shows the progress of running jobs: a live table in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from stretto.cli.reporting import errors
from stretto.coordinator.records import JobStatus
from stretto.runtime.job import Job
from stretto.runtime.metrics import JobMetrics

RATE_WINDOW_S = 2.0
"""A rate is computed over this many recent seconds, not since the start."""

DRAW_EVERY_S = 0.25
LINE_EVERY_S = 2.0

STYLES = {
    JobStatus.WAITING: "yellow",
    JobStatus.DEPLOYING: "yellow",
    JobStatus.RUNNING: "cyan",
    JobStatus.RECOVERING: "yellow",
    JobStatus.STOPPING: "yellow",
    JobStatus.FINISHED: "green",
    JobStatus.FAILED: "red",
    JobStatus.STOPPED: "yellow",
}


def steps_bar() -> Progress:
    """Returns a progress bar on stderr for a known number of steps."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=errors)


class RateMeter:
    """Computes rows per second over the last RATE_WINDOW_S seconds from running totals."""

    def __init__(self, now_s: float) -> None:
        self._seen: deque[tuple[float, int]] = deque([(now_s, 0)])

    def rate(self, total: int, now_s: float) -> float:
        self._seen.append((now_s, total))
        while len(self._seen) > 2 and self._seen[1][0] <= now_s - RATE_WINDOW_S:
            self._seen.popleft()
        then_s, before = self._seen[0]
        return (total - before) / (now_s - then_s) if now_s > then_s else 0.0


@dataclass(frozen=True, slots=True)
class Sample:
    """The status and figures of a job at one moment."""

    name: str
    status: JobStatus
    progress: str
    rows_in: int
    rows_out: int
    share: float | None
    rate: float
    metrics: JobMetrics


class Watch:
    """Samples a job. `rows_total` is the number of rows that its sources will read, if known."""

    def __init__(self, name: str, job: Job, rows_total: int | None = None) -> None:
        self._name = name
        self._job = job
        self._rows_total = rows_total
        self._meter = RateMeter(time.monotonic())

    def sample(self, now_s: float) -> Sample:
        status, progress, metrics = self._job.status, self._job.progress, self._job.metrics()
        rows_in = metrics.rows_in
        share = min(1.0, rows_in / self._rows_total) if self._rows_total else None
        rate = metrics.input_rate if status.ended else self._meter.rate(rows_in, now_s)
        return Sample(self._name, status, progress, rows_in, metrics.rows_out, share, rate, metrics)


class Display:
    """Redraws a table in place in a terminal, or prints lines elsewhere. `tick` limits the rate by itself."""

    def __init__(
        self,
        console: Console,
        table: Callable[[], RenderableType],
        line: Callable[[], str],
        line_every_s: float = LINE_EVERY_S,
    ) -> None:
        self._line_every_s = line_every_s
        self._console = console
        self._table = table
        self._line = line
        self._live: Live | None = None
        self._drawn_s = time.monotonic()

    def __enter__(self) -> Display:
        if self._console.is_terminal:
            self._live = Live(self._table(), console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, line: str) -> None:
        """Prints a line now; a table in a terminal stays below it."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def tick(self) -> None:
        now_s = time.monotonic()
        if now_s - self._drawn_s < (self._line_every_s if self._live is None else DRAW_EVERY_S):
            return
        self._drawn_s = now_s
        if self._live is not None:
            self._live.update(self._table(), refresh=True)
        else:
            self._console.print(self._line(), highlight=False, markup=False, soft_wrap=True)


# Several jobs


def jobs_table(samples: Sequence[Sample]) -> Table:
    """Returns a table with one row per job, 80 columns wide."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.caption = "latency in milliseconds; SLO: whether the job meets its objective"
    table.add_column("query")
    table.add_column("status", min_width=9)
    for heading in ("read", "done", "rows/s", "results", "p50", "p95", "p99"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("SLO")
    for sample in samples:
        latency = sample.metrics.latency_ms
        table.add_row(
            sample.name,
            f"[{STYLES[sample.status]}]{sample.status.value}[/]",
            f"{sample.rows_in:,}",
            done(sample),
            f"{sample.rate:,.0f}",
            f"{sample.rows_out:,}",
            *(ms(latency.get(name)) for name in ("p50", "p95", "p99")),
            met(sample.metrics.objective.latency_met),
        )
    return table


def jobs_line(samples: Sequence[Sample]) -> str:
    """Returns one line of text per job."""
    return "\n".join(job_line(sample) for sample in samples)


def job_line(sample: Sample) -> str:
    if sample.progress != sample.status.value:
        return f"{sample.name:<6} {sample.progress}"
    latency = "  ".join(f"{name} {ms(sample.metrics.latency_ms.get(name))}" for name in ("p50", "p95", "p99"))
    return (
        f"{sample.name:<6} {sample.status.value:<9} {sample.rows_in:>9,} {done(sample):>4} rows read"
        f" {sample.rate:>10,.0f}/s {sample.rows_out:>8,} results  latency ms {latency}"
    )


def done(sample: Sample) -> str:
    """Returns the share of rows read, or an empty text if unknown."""
    return "" if sample.share is None else f"{sample.share:.0%}"


# One job by function


def functions_table(sample: Sample, rates: Mapping[str, float]) -> Table:
    """Returns a table with one row per function of a job; `rates` are input rows per second."""
    latency = sample.metrics.latency_ms
    title = (
        f"[bold]{sample.name}[/] [{STYLES[sample.status]}]{sample.progress}[/] {sample.metrics.elapsed_s:.1f} s"
        f"   latency ms p50 {ms(latency.get('p50'))}  p95 {ms(latency.get('p95'))}  p99 {ms(latency.get('p99'))}"
    )
    wanted = sample.metrics.objective.latency_met
    table = Table(title=title, title_justify="left", header_style="bold")
    if wanted is not None:
        table.caption = f"latency objective {met(wanted)}"
    table.add_column("function")
    for heading in ("instances", "rows in", "rows in/s", "rows out", "queued", "busy"):
        table.add_column(heading, justify="right")
    for name, function in sample.metrics.functions.items():
        table.add_row(
            name,
            str(function.instances),
            f"{function.rows_in:,}",
            f"{rates.get(name, 0.0):,.0f}",
            f"{function.rows_out:,}",
            f"{function.queued:,}",
            f"{function.busy_share:.0%}",
        )
    return table


def ms(value: float | None) -> str:
    """Formats milliseconds, with one decimal below 100."""
    if value is None:
        return "-"
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def met(value: bool | None) -> str:
    """Returns whether an objective is met, as coloured text."""
    if value is None:
        return "-"
    return "[green]met[/]" if value else "[red]missed[/]"
