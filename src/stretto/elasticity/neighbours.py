"""Parts jobs that have promised a latency from those whose runs last longer than that.

A run is not interrupted, and one that cannot be cut into pieces (it sleeps, or asks another service) delays everybody
on its worker by its whole length. The job with the objective leaves such workers if there is one without; otherwise the
other job leaves one of them, which the first can have to itself later.
"""

from __future__ import annotations

from collections.abc import Iterator

from stretto.elasticity.controller import Controller
from stretto.elasticity.decisions import MoveHomes
from stretto.elasticity.disturbance import disturbance_of, disturbing, homes_of, outlasting
from stretto.elasticity.records import Candidate, DecisionRecord, Trigger
from stretto.elasticity.subjects import Subject
from stretto.elasticity.view import ElasticView

LEAVES = "runs beside it last longer than its objective, and other workers have none"
MAKES_ROOM = "its runs last longer than what a job beside it has promised"
NO_WAY = "runs beside it last longer than its objective, and neither can move elsewhere"


class Neighbours(Controller):
    """Decides about one job at a time, the most urgent first: where it goes changes what the next one sees. What was
    tried is not tried again for `rest_ns`, but the next best is."""

    name = "neighbours"
    looks_at = Subject.OBJECTIVES

    def __init__(
        self,
        every_ns: int = 1_000_000_000,
        effect_ns: int = 10_000_000_000,
        rest_ns: int = 60_000_000_000,
    ) -> None:
        self.every_ns = every_ns
        self.effect_ns = effect_ns
        self._rest_ns = rest_ns
        self._tried_ns: dict[MoveHomes, int] = {}

    def decide(self, view: ElasticView, now_ns: int) -> list[DecisionRecord]:
        self._tried_ns = {move: at_ns for move, at_ns in self._tried_ns.items() if now_ns - at_ns < self._rest_ns}
        if any(now_ns - at_ns < self.effect_ns for at_ns in self._tried_ns.values()):
            return []  # What was decided last may still change what is seen.
        disturbed = [name for name in view.jobs if disturbing(view, name)]
        undecided = []
        for name in sorted(disturbed, key=lambda name: (view.jobs[name].objective_ns or 0.0, name)):
            moves = list(self._moves(view, name))
            chosen = next((move for move, _ in moves if move not in self._tried_ns), None)
            if chosen is not None:
                self._tried_ns[chosen] = now_ns
                return [self._record(view, name, now_ns, chosen, moves)]
            undecided.append(self._record(view, name, now_ns, None, moves))
        return undecided

    def _moves(self, view: ElasticView, name: str) -> Iterator[tuple[MoveHomes, str]]:
        """Yields what can be done for a job, the best first, with the reason for it."""
        by_worker: dict[str, set[str]] = {}
        for each in outlasting(view, name):
            by_worker.setdefault(each.member, set()).add(each.job)
        if view.workers.keys() - by_worker.keys():
            yield MoveHomes(name, tuple(sorted(by_worker))), LEAVES
        candidates = [member for member in homes_of(view, name) if member in by_worker and member in view.workers]
        for member in sorted(candidates, key=lambda member: (len(by_worker[member]), member)):
            for other in sorted(by_worker[member]):
                if len(view.workers) > 1 and self._yields(view, other, name):
                    yield MoveHomes(other, (member,)), MAKES_ROOM

    def _yields(self, view: ElasticView, other: str, name: str) -> bool:
        """Whether a job makes room for another: it has promised no latency, or a longer one."""
        promised_ns = view.jobs[other].objective_ns if other in view.jobs else None
        return promised_ns is None or promised_ns > (view.jobs[name].objective_ns or 0.0)

    def _record(
        self,
        view: ElasticView,
        name: str,
        now_ns: int,
        chosen: MoveHomes | None,
        moves: list[tuple[MoveHomes, str]],
    ) -> DecisionRecord:
        reasons = dict(moves)
        about = name if chosen is None else chosen.job
        seen = {**(disturbance_of(view, about) or {}), "objective_ms": (view.jobs[name].objective_ns or 0.0) / 1e6}
        candidates = [Candidate("stay", disturbance_of(view, name) or {}, "every run beside it delays it")]
        candidates += [Candidate(f"{move.job}: {move}", {}, self._lost_because(move, chosen)) for move in reasons]
        return DecisionRecord(
            now_ns,
            self.name,
            about,
            "",
            None,
            Trigger.LONG_RUNS,
            NO_WAY if chosen is None else reasons[chosen],
            seen,
            tuple(candidates),
            chosen,
            None if chosen is None else now_ns + self.effect_ns,
        )

    def _lost_because(self, move: MoveHomes, chosen: MoveHomes | None) -> str | None:
        if move == chosen:
            return None
        return "it was tried a short time ago" if move in self._tried_ns else "the one before it is enough"
