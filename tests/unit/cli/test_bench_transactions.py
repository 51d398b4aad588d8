"""`stretto bench transactions` on machines in one process."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from stretto.bench.transactions import measure
from stretto.bench.transactions.measure import Named, percentiles, workload_named
from stretto.bench.transactions.tpcc import Tpcc
from stretto.bench.transactions.workload import Run
from stretto.bench.transactions.ycsb_t import YcsbT
from stretto.cli.program import program

runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})


def ran(*options: str) -> tuple[int, dict[str, object]]:
    result = runner.invoke(program, ["bench", "transactions", "--in-process", "--calls", "200", "--json", *options])
    return result.exit_code, json.loads(result.stdout)


@pytest.mark.parametrize("workload", list(Named))
def test_a_workload_is_run_verified_and_reported(workload: Named) -> None:
    exit_code, found = ran("--workload", workload, "--warehouses", "2")
    assert exit_code == 0
    assert found["workload"] == workload
    assert found["match"] is True
    assert found["transactions"] == 200
    assert {"per_s", "per_cpu_s", "latency_ms", "aborted", "conflicts"} <= found.keys()


def test_a_wrong_answer_is_an_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "problems", lambda self: ["a balance"])
    exit_code, found = ran()
    assert exit_code == 1
    assert found["match"] is False
    assert found["problems"] == ["a balance"]


def test_parts_are_left_out_on_request() -> None:
    exit_code, found = ran("--ablation", "--hot")
    assert exit_code == 0
    assert isinstance(found["brings"], dict)
    assert found["brings"].keys() == {"fallback", "early_replies", "batching", "local_calls", "reordering"}


def test_options_belong_to_their_workloads() -> None:
    assert workload_named(Named.YCSB_T, skew=0.5) == YcsbT(skew=0.5)
    assert workload_named(Named.TPCC, skew=0.5, warehouses=10) == Tpcc(10)


def test_percentiles_are_of_the_values() -> None:
    assert percentiles([float(each) for each in range(1_000)]) == {"p50": 500.0, "p99": 990.0}
    assert measure.percentiles([3.0]) == {"p50": 3.0, "p99": 3.0}
