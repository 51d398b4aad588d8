"""`stretto bench tenants` and `bench scheduling`, as far as they can be tested without Spark."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from stretto.bench import scheduling_cost
from stretto.cli.bench import tenants as bench_tenants
from stretto.cli.program import program

runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})


@pytest.mark.parametrize(("loads", "fact"), [("0.5,much", "must be a list of numbers"), ("0.5,0", "greater than zero")])
def test_wrong_loads_are_refused_before_anything_starts(loads: str, fact: str) -> None:
    result = runner.invoke(program, ["bench", "tenants", "--loads", loads])
    assert result.exit_code == 2
    assert fact in result.stderr


def test_loads_are_read_in_order() -> None:
    assert bench_tenants._loads("0.25,1,2") == (0.25, 1.0, 2.0)


def test_scheduling_prints_one_object_or_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling_cost, "BATCH_ROWS", (1, 5))
    monkeypatch.setattr(scheduling_cost, "TENANTS", (4, 8))
    result = runner.invoke(program, ["bench", "scheduling", "--messages", "100", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [batch["rows"] for batch in found["batches"]] == [1, 5]
    assert list(found["growth"]["queue_comparisons"]["points"]) == ["4", "8"]
    tables = runner.invoke(program, ["bench", "scheduling", "--messages", "100"])
    assert tables.exit_code == 0
    assert "queue by urgency" in tables.stdout
