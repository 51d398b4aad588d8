"""The verdict on a history: its anomalies, each with a witness, and how much evidence there was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from stretto.simulator.checking.checkers import Violation
from stretto.simulator.checking.serializability.cycles import cycles, graph_of
from stretto.simulator.checking.serializability.dependencies import Dependency, Kind, dependencies_of, real_time
from stretto.simulator.checking.serializability.history import (
    External,
    Outcome,
    Transaction,
    external_reads,
    writers_of,
)
from stretto.simulator.checking.serializability.versions import Misread, lists_of, misreads

NO_EVIDENCE = "no-evidence"


class Order(Enum):
    """Which order is asked for."""

    SERIALIZABLE = "serializable"
    STRICT = "strict"
    """Serializable, and transactions that do not overlap in time are in the order of time."""


@dataclass(frozen=True)
class Verdict:
    """What was found in a history. `evidence` counts the dependencies by data between different transactions."""

    anomalies: tuple[Violation, ...]
    transactions: int
    evidence: int

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(each.kind for each in self.anomalies)


def check(history: Sequence[Transaction], order: Order = Order.STRICT) -> Verdict:
    """Returns whether some serial order explains the history, with a witness for each reason why none does."""
    writers = writers_of(history)
    reads: list[External] = []
    found: list[Violation] = []
    for transaction in history:
        if transaction.outcome is Outcome.COMMITTED:
            for read in external_reads(transaction):
                if isinstance(read, External):
                    reads.append(read)
                else:
                    found.append(Violation(Misread.INTERNAL, read))
    lists = lists_of(history, reads, writers)
    misread = list(misreads(reads, lists, writers))
    by_data = list(dependencies_of(reads, lists, writers))
    by_time = list(real_time(lists.took_effect)) if order is Order.STRICT else []
    found += (each for each in misread if order is Order.STRICT or each.kind != Misread.LOST)
    found += (Violation(name, _shown(way)) for name, way in cycles(graph_of(by_data + by_time)))
    if not any(each.kind is Kind.WR for each in by_data):
        found.append(Violation(NO_EVIDENCE, f"no transaction of {len(history)} has read what another one appended"))
    return Verdict(tuple(found), len(history), len(by_data))


def _shown(way: Sequence[Dependency]) -> str:
    steps = (f"{each.before} -{each.kind.value}-> {each.after} ({each.reason})" for each in way)
    return "; ".join(steps)
