"""How soon a row is in an answer, and whether an answer ever has less than it was asked to have."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

from stretto.api.app import App
from stretto.bench.questions.measuring import TIMEOUT_S, percentiles
from stretto.bench.questions.rows import BEGIN
from stretto.bench.questions.ticking import Ticks
from stretto.runtime.cluster import Cluster

TABLE = "ticks"
EVERY_MS = 20
AHEAD_MAX = 4
"""How many rows further than the newest one that it knows a question asks at most."""


@dataclass
class Freshness:
    """What was found. `ages_ms` are the ages of rows in the first answer that has them."""

    tries: int = 0
    ages_ms: list[float] = field(default_factory=list)
    less: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return {"tries": self.tries, "age_ms": percentiles(self.ages_ms), "answers_with_less": self.less[:3]}


def measure_freshness(
    cluster: Cluster, tries: int, seed: int, directory: Path, told: Callable[[str], None]
) -> Freshness:
    """Asks for the rows that are new, again and again; each time after that for a time that may not have come yet."""
    app = App("fresh", parallelism=2)
    app.source("ticks", Ticks(EVERY_MS), time="at").publish(TABLE, segment="1 minute")
    job = cluster.submit(app, checkpoint=directory, every="1 s")
    report, rng, seen = Freshness(), Random(seed), _newest(cluster, [-1, -1])
    for _ in range(tries):
        report.tries += 1
        seen = _ask_new(cluster, seen, report)
        _ask_at_least(cluster, min(seen) + rng.randint(0, AHEAD_MAX), report)
    job.stop()
    told(f"{report.tries} times it was waited for a time; the ages of {len(report.ages_ms)} rows were taken")
    return report


def _newest(cluster: Cluster, seen: list[int]) -> list[int]:
    """Returns the places of the newest rows, once each partition has one."""
    while min(seen) < 0:
        rows = cluster.query(f"SELECT part, max(place) AS place FROM {TABLE} GROUP BY part", timeout=TIMEOUT_S)
        for row in rows.to_pylist():
            seen[row["part"]] = row["place"]
    return seen


def _ask_new(cluster: Cluster, seen: list[int], report: Freshness) -> list[int]:
    conditions = " OR ".join(f"(part = {part} AND place > {place})" for part, place in enumerate(seen))
    first = BEGIN + timedelta(milliseconds=min(seen) * EVERY_MS)
    text = f"SELECT part, place, arrived_us FROM {TABLE} WHERE at >= timestamp '{first}' AND ({conditions})"
    rows = cluster.query(text, timeout=TIMEOUT_S).to_pylist()
    now_us = time.time_ns() // 1_000
    newest = list(seen)
    for row in rows:
        report.ages_ms.append((now_us - row["arrived_us"]) / 1_000)
        newest[row["part"]] = max(newest[row["part"]], row["place"])
    return newest


def _ask_at_least(cluster: Cluster, place: int, report: Freshness) -> None:
    """Asks for all rows before a time: each partition has one for each step."""
    least = BEGIN + timedelta(milliseconds=place * EVERY_MS)
    text = f"SELECT part, count(*) AS c FROM {TABLE} WHERE at < timestamp '{least}' GROUP BY part ORDER BY part"
    rows = cluster.query(text, timeout=TIMEOUT_S, at_least=least).to_pylist()
    wanted = [{"part": part, "c": place} for part in (0, 1)] if place else []
    if rows != wanted:
        report.less.append(f"at least {least}: {rows}, and not {wanted}")
