"""Waves: what a transaction does depends neither on where its entities are nor on what else runs."""

from __future__ import annotations

import random
from itertools import count
from typing import Any

import msgspec

from stretto.protocol.transactions import EntityName, Request
from stretto.simulator.checking.cells import KEYS_MAX, Cell, Do, Model, ModelCell, Plans, Seen, Step
from stretto.transactions.catalog import Catalog
from stretto.transactions.execution import Execution, Root
from stretto.transactions.placement import Placement

CATALOG = Catalog([Cell])
KEYS = [f"k{number}" for number in range(KEYS_MAX)]
POOR = {EntityName("Cell", key): msgspec.msgpack.encode({"items": [], "money": 3, "drawn": 0}) for key in KEYS}
"""So that many transactions are aborted."""


def request(key: str, plan: list[Step]) -> Request:
    call: Any = Cell(key).act(plan)
    return Request(EntityName("Cell", key), "act", call.arguments)


class Workers:
    """Executions on some workers, whose waves are carried by hand."""

    def __init__(self, workers: int) -> None:
        self.placement = Placement(workers)
        self.all = {number: Execution(number, self.placement, CATALOG, POOR) for number in range(1, workers + 1)}

    def run(self, key: str, plan: list[Step]) -> tuple[Root, dict[EntityName, bytes]]:
        """Run one transaction to its end."""
        home = self.placement.worker_of(EntityName("Cell", key))
        tid = home
        self.all[home].begin(tid, request(key, plan), 0, "1-0")
        while not self.all[home].roots[tid].complete:
            for execution in self.all.values():
                execution.run()
            for sender, execution in self.all.items():
                for to, sent in execution.take_outgoing().items():
                    for item in [*sent.shares, *sent.calls, *sent.returns]:
                        self.all[to].deliver(sender, item)
        writes: dict[EntityName, bytes] = {}
        for execution in self.all.values():
            if tid in execution.parts:
                writes.update(execution.parts[tid].writes())
        return self.all[home].roots[tid], writes


def test_the_same_on_any_number_of_workers_and_in_the_model() -> None:
    plans = Plans(random.Random(6), 5, count(1))
    failed = 0
    for _ in range(150):
        plan, key = plans.plan(), plans.key()
        outcomes = [Workers(workers).run(key, plan) for workers in (1, 2, 5)]
        (root, writes), *others = outcomes
        for other, other_writes in others:
            assert (other.value, other.failure) == (root.value, root.failure)
            if root.failure is None:
                assert other_writes == writes
        seen = [] if root.value is None else msgspec.msgpack.decode(root.value, type=list[Seen])
        model = Model()
        model.cells = {each: ModelCell(money=3) for each in KEYS}
        right = model.run(key, plan, iter([each.value for each in seen if each.do is Do.DRAW]))
        assert right == (seen if root.failure is None else root.failure.text)
        failed += root.failure is not None
    assert failed > 10


def test_a_transaction_on_two_workers_runs_one_wave_in_a_round() -> None:
    """Others that end in the same round make the worker run again; this one must wait for the other worker."""
    placement = Placement(2)
    here, there = (next(k for k in map(str, range(9)) if _home(placement, k) == number) for number in (1, 2))
    execution = Execution(1, placement, CATALOG, {})
    inner = [Step(Do.CALL, 0, here, [Step(Do.EARN, 1)])]
    plan = [Step(Do.LATER, 0, there, [Step(Do.READ)]), Step(Do.CALL, 0, here, inner)]
    execution.begin(1, request(here, plan), 0, "1-0")
    execution.run()
    waiting = list(execution.parts[1].waiting)
    execution.run()
    assert execution.parts[1].waiting == waiting
    execution.take_outgoing()
    execution.run()
    assert execution.parts[1].waiting != waiting


def _home(placement: Placement, key: str) -> int:
    return placement.worker_of(EntityName("Cell", key))
