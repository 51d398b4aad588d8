"""Compares what can be done about a burst, each time with every row beside Spark SQL's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stretto.bench.burst.load import BurstLoad
from stretto.bench.burst.measuring import Approach, Measured, measure
from stretto.bench.nexmark.run import SparkAnswers
from stretto.bench.verify import Match, compare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class BurstReport:
    """What was measured, by approach."""

    load: BurstLoad
    runs: dict[Approach, Measured] = field(default_factory=dict)
    match: dict[Approach, bool] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)

    @property
    def all_match(self) -> bool:
        return bool(self.match) and all(self.match.values())

    def as_dict(self) -> dict[str, Any]:
        redirect = self.runs[Approach.REDIRECT]
        others = {each.value: self._other(each) for each in (Approach.NO_SCALING, Approach.COLD_WORKERS)}
        return {
            "query": self.load.query,
            "match": self.all_match,
            "p99_ms": redirect.p99_ms,
            **others,
            "first_transient_row_s": redirect.first_transient_row_s,
            "decision_to_redirect_ms": redirect.decision_to_redirect_ms,
            "ended_s": redirect.ended_s,
            "busy_before": redirect.busy,
            "transient_workers": redirect.transient_most,
            "rows": 0 if redirect.results is None else redirect.results.num_rows,
            **({"complaints": self.complaints} if self.complaints else {}),
        }

    def _other(self, approach: Approach) -> dict[str, Any]:
        run = self.runs[approach]
        added = {} if approach is Approach.NO_SCALING else {"added_s": run.added_s}
        return {"match": self.match[approach], "p99_ms": run.p99_ms, "busy_before": run.busy, **added}


def run(spark: SparkSession, load: BurstLoad, note: Callable[[str], None] = lambda text: None) -> BurstReport:
    """Runs the query by each approach, and checks its answers."""
    report = BurstReport(load)
    with SparkAnswers(spark, load.config) as answers:
        expected = answers.answer(load.query)
    for approach in Approach:
        found = report.runs[approach] = measure(spark, load, approach, note)
        assert found.results is not None
        verdict = compare(found.results, expected)
        report.match[approach] = verdict.match is Match.MATCH
        report.complaints += found.notes
        if not report.match[approach]:
            report.complaints.append(f"{approach.value}: {verdict.describe()}")
    return report
