"""By how much functions yield to others for the time that they take of a worker."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stretto.actors.deadlines import HANDICAP
from stretto.actors.deployment import Edge, FunctionSpec, Rebalance, Stage
from stretto.actors.function import Function
from stretto.worker.demands import Demands

SCHEMA = pa.schema([("n", pa.int64())])
LATENCY_NS = 1_000


def feeding(name: str, *targets: str) -> FunctionSpec:
    """A function that feeds others, one of them behind a fused step."""
    edges = [Edge(target, "in", Rebalance()) for target in targets]
    step = Stage(f"{name}.step", SCHEMA, edges=edges[1:])
    return FunctionSpec(name, Function(), 1, {"out": Stage(name, SCHEMA, edges=edges[:1], stages=[step])})


def handicaps(busy_ns: dict[str, int], intervals: int = 20) -> dict[str, float]:
    """The handicaps after some intervals of 100 ns, as parts of the greatest."""
    functions = {"read": feeding("read", "log", "sums"), "log": feeding("log"), "sums": feeding("sums", "top")}
    functions["top"] = feeding("top")
    demands = Demands()
    for interval in range(1, intervals + 1):
        demands.assess(functions, busy_ns, LATENCY_NS, 100 * interval)
    return {name: demands.of(name).handicap_ns / (HANDICAP * LATENCY_NS) for name in functions}


def test_a_function_yields_by_its_part_of_the_workers_time_and_who_feeds_it_yields_as_much() -> None:
    """A source that did not would fill the mailboxes below it to the last credit."""
    found = handicaps({"read": 10, "sums": 60, "log": 20, "top": 5})
    assert found == pytest.approx({"read": 0.6, "sums": 0.6, "log": 0.2, "top": 0.05}, rel=0.01)


def test_a_demanding_source_yields_to_what_it_feeds() -> None:
    assert handicaps({"read": 80, "top": 10}) == pytest.approx(
        {"read": 0.8, "sums": 0.1, "top": 0.1, "log": 0.0}, rel=0.01, abs=0.01
    )


def test_a_single_long_run_counts_by_half() -> None:
    assert handicaps({"top": 900}, intervals=1)["top"] == 0.5


def test_all_that_get_rows_of_a_function_are_below_it_on_whatever_way() -> None:
    functions = {"read": feeding("read", "log", "sums"), "log": feeding("log"), "sums": feeding("sums", "top")}
    functions["top"] = feeding("top")
    demands = Demands()
    for now_ns in (100, 200):
        demands.assess(functions, {}, LATENCY_NS, now_ns)
    below = {name: set(demands.of(name).below) for name in functions}
    log, sums, top = (demands.of(name) for name in ("log", "sums", "top"))
    assert below == {"read": {log, sums, top}, "log": set(), "sums": {top}, "top": set()}
