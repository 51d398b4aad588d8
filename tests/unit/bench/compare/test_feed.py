"""The feed: the same events for any file size, at their due times, and no later because of the reader."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.waiting import WAIT_S

from stretto.bench.compare.feed import Feed, Library, events_per_file
from stretto.bench.nexmark.events import NexmarkConfig, event_time_us
from stretto.bench.nexmark.generator import generate

CONFIG = NexmarkConfig(seed=3, event_rate=1_000)
COLUMNS = {"bid": ("auction", "dateTime"), "person": ("id", "dateTime")}


def library(directory: Path) -> Library:
    return Library(directory, COLUMNS, lambda events: None)


def test_files_hold_the_generated_events_whatever_their_size(tmp_path: Path) -> None:
    whole = pa.Table.from_batches([generate(CONFIG, "bid", 0, 1000, ("auction", "dateTime"))])
    for per_file in (100, 500):
        rendered = library(tmp_path / str(per_file)).rendered(CONFIG, per_file, 1000 // per_file)
        files = sorted((rendered.directory / "bid").iterdir())
        assert len(files) == 1000 // per_file
        assert pa.concat_tables([pq.read_table(file) for file in files]).equals(whole)


def test_files_are_written_once(tmp_path: Path) -> None:
    rendered_events: list[int] = []
    made = Library(tmp_path, COLUMNS, rendered_events.append)
    made.rendered(CONFIG, 100, 3)
    made.rendered(CONFIG, 100, 2)
    made.rendered(CONFIG, 100, 5)
    assert rendered_events == [300, 200]
    assert made.rendered(CONFIG, 100, 2).events == 200


def test_an_event_time_leads_to_the_file_that_first_reaches_it(tmp_path: Path) -> None:
    rendered = library(tmp_path).rendered(CONFIG, 100, 5)
    for number in (0, 1, 99, 100, 101, 299, 450):
        found = rendered.file_with(np.array([event_time_us(CONFIG, number)]))
        assert found.tolist() == [number // 100]
    assert rendered.end_us == event_time_us(CONFIG, 500)
    assert rendered.file_with(np.array([CONFIG.base_time_us - 5])).tolist() == [0]


def test_files_appear_at_their_due_times(tmp_path: Path) -> None:
    rendered = library(tmp_path / "files").rendered(CONFIG, 100, 6)
    feed = Feed(rendered, tmp_path / "run", rate=2_000)
    feed.start()
    seen_ns: dict[str, int] = {}
    while len(seen_ns) < 6:
        names = [path.name for path in (tmp_path / "run" / "bid").iterdir()]
        now_ns = time.time_ns()
        seen_ns.update({name: now_ns for name in names if name not in seen_ns})
        assert now_ns < feed.end_ns + WAIT_S * 1e9, "a file never appeared"
    due_ns = feed.due_ns(np.arange(6))
    assert due_ns.tolist() == [feed.start_ns + (i + 1) * 50_000_000 for i in range(6)]
    # Never early; how late depends on the machine, so it is only reported.
    assert all(seen >= due for seen, due in zip(sorted(seen_ns.values()), due_ns, strict=True))
    assert feed.end_ns == due_ns[-1]
    feed.remove()
    assert not (tmp_path / "run").exists()


def test_everything_at_once_ends_with_the_mark(tmp_path: Path) -> None:
    feed = Feed(library(tmp_path / "files").rendered(CONFIG, 100, 3), tmp_path / "run", None, laps=2)
    feed.put_all()
    names = sorted(path.name for path in (tmp_path / "run" / "person").iterdir())
    assert names == [*(f"{number:06d}.parquet" for number in range(6)), "_SUCCESS"]
    feed.remove()
    assert (tmp_path / "files").exists()


@pytest.mark.parametrize(("rate", "events"), [(10_000, 500), (1_000_000, 50_000), (3_900_000, 100_000), (1, 100)])
def test_a_file_appears_about_twenty_times_a_second(rate: float, events: int) -> None:
    assert events_per_file(rate) == events


def test_a_run_is_no_longer_than_its_files_may_be_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = library(tmp_path)
    rendered = made.rendered(CONFIG, 100, 1)
    size = sum(path.stat().st_size for path in rendered.directory.rglob("*.parquet"))
    monkeypatch.setattr("stretto.bench.compare.feed.BYTES_MAX", size * 7 + 1)
    assert made.events_max(CONFIG, 100) == 700
