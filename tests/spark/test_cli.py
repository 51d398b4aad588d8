"""The command line as a process: its output, its exit code, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
from tests.waiting import WAIT_S

ROOT = Path(__file__).parents[2]

ENDLESS = """
from stretto import App, sinks
from stretto.bench.nexmark.events import NexmarkConfig
from stretto.bench.nexmark.source import NexmarkSource

app = App("endless", engine="actors")
app.source("bids", NexmarkSource("bid", NexmarkConfig(), rate=1000)).sink(sinks.null())
"""

FAILING = """
import pyarrow as pa
from stretto import App, sinks, sources

def divide(batch):
    if batch.num_rows:
        return batch.set_column(0, "n", pa.array([1 // n for n in batch.column("n").to_pylist()]))
    return batch

app = App("failing")
app.source("numbers", sources.memory([{"n": 1}, {"n": 0}])).map(divide).sink(sinks.collect())
"""


def stretto(*arguments: str, directory: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stretto", *arguments]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=WAIT_S, check=False)


def test_nexmark_prints_one_json_line_and_succeeds() -> None:
    done = stretto("nexmark", "q5", "--events", "20000", "--verify", "--json")
    assert done.returncode == 0, done.stderr
    (text,) = done.stdout.splitlines()
    line = json.loads(text)
    assert line["query"] == "q5"
    assert line["events"] == 20000
    assert line["rows"] > 0
    assert line["match"] is True
    assert line["events_per_s"] > 0
    assert sorted(line["latency_ms"]) == ["max", "p50", "p95", "p99"]
    assert line["workers"] == 2
    assert line["spark_app_id"].startswith("local-")


def test_run_prints_the_rows_of_a_collecting_sink() -> None:
    done = stretto("run", "examples.word_count:app", "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert "counts: 14 rows" in done.stdout
    assert "question" in done.stdout


def test_sql_runs_a_file_and_explains_without_spark(tmp_path: Path) -> None:
    text = """CREATE STREAMING TABLE t (id BIGINT, name STRING) AS VALUES (1, 'a'), (2, 'b'), (3, 'b');
        {}SELECT name, count(*) AS n FROM t GROUP BY name HAVING n > 1;"""
    (tmp_path / "counts.sql").write_text(text.format(""))
    done = stretto("sql", "counts.sql", "--workers", "1", directory=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "result: 1" in done.stdout
    assert "│ b    │ 2 │" in done.stdout
    assert "keeps every name for ever" in done.stderr
    explained = stretto("sql", "-e", text.format("EXPLAIN "))
    assert explained.returncode == 0
    assert "running aggregate, keys (name)" in explained.stdout
    assert "Starting Spark" not in explained.stderr
    wrong = stretto("sql", "-e", "SELECT nam FROM t;\n" + text.format("").replace("SELECT name", "SELECT nme"))
    assert wrong.returncode == 2
    assert "unknown column 'nam': line 1, column 8" in wrong.stderr


def test_a_failing_function_shows_its_traceback_and_json_stays_clean(tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    done = stretto("run", "failing:app", "--workers", "1", "--json", directory=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "error: function 'divide' raised ZeroDivisionError" in done.stderr
    assert "in divide" in done.stderr
    assert "{'n': 1}" in done.stderr


def test_interrupted_it_stops_and_leaves_no_process(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    command = [sys.executable, "-m", "stretto", "run", "endless:app", "--workers", "1"]
    # In its own session, so that the interruption goes to the whole group, as Ctrl-C in a terminal does.
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stderr is not None
        said = ""
        while " rows read" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        started = psutil.Process(process.pid).children(recursive=True)
        assert started
        os.killpg(process.pid, signal.SIGINT)
        said += process.communicate(timeout=WAIT_S)[1]
    assert process.returncode == 130, said
    assert "Stopping endless" in said
    assert "Traceback" not in said
    _, alive = psutil.wait_procs(started, timeout=WAIT_S)
    assert alive == []


def test_the_timeout_ends_an_endless_app(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    done = stretto("run", "endless:app", "--workers", "1", "--timeout", "2", "--json", directory=tmp_path)
    assert done.returncode == 0, done.stderr
    line = json.loads(done.stdout)
    assert line["status"] == "finished"
    assert line["metrics"]["rows_in"] == line["metrics"]["rows_out"], "what was read is processed"
