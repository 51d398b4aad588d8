"""What a run of the fuzzer finds, and how it is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from stretto.bench.fuzz.aggregates import GROUPED
from stretto.bench.fuzz.documented import DOCUMENTED
from stretto.bench.fuzz.judging import Disagreement, Kind
from stretto.bench.fuzz.literals import exact_text
from stretto.bench.fuzz.plain import plain_values
from stretto.bench.fuzz.shrinking import Case
from stretto.bench.fuzz.terms import Term

_SHOWN_MAX = 300
EXAMPLES_MAX = 3
"""Disagreements of one kind and shape that are shown."""
_INNER = ("heads", "found")
"""Fields of a report that are not printed."""


@dataclass
class Finding:
    """A disagreement, made small. `count` is how many random expressions were made small to this one."""

    kind: str
    shape: str
    expression: str
    select: str
    ours: str
    sparks: str
    first_seen_in: str
    head: str = ""
    count: int = 1


def _unheard(finding: Finding) -> None:
    pass


@dataclass
class Report:
    """All that a run found. `agreed` are the expressions that both sides evaluated alike.

    `interrupted` is whether the run was ended before its end; `unsettled` are the expressions that differed then, and
    could still turn out to be documented. `found` is called with each finding."""

    seed: int
    timezone: str
    expressions: int = 0
    aggregates: int = 0
    agreed: int = 0
    answers_compared: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    refused_but_spark_accepts: dict[str, dict[str, Any]] = field(default_factory=dict)
    documented: dict[str, int] = field(default_factory=lambda: {each.name: 0 for each in DOCUMENTED})
    disagreements: int = 0
    findings: list[Finding] = field(default_factory=list)
    never_exercised: list[str] = field(default_factory=list)
    functions: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    unsettled: list[str] = field(default_factory=list)
    heads: Counter[tuple[str, str]] = field(default_factory=Counter)
    found: Callable[[Finding], None] = _unheard

    def add(self, case: Case, disagreement: Disagreement, original: str) -> None:
        """Records a disagreement that was made small; of those alike, a few are kept and the rest counted."""
        self.disagreements += 1
        found = finding(case, disagreement, original)
        alike = [known for known in self.findings if (known.kind, known.shape) == (found.kind, found.shape)]
        same = [known for known in alike if known.expression == found.expression]
        if same or len(alike) >= EXAMPLES_MAX:
            (*same, *alike)[0].count += 1
        else:
            self.findings.append(found)
            self.found(found)
        self.heads[found.kind, found.head] += 1

    def knows(self, kind: Kind, term: Term) -> bool:
        """Whether so many disagreements of this kind and head are kept that another one would only be counted."""
        return self.heads[kind.value, term.head] >= EXAMPLES_MAX

    def add_known(self, kind: Kind, term: Term) -> None:
        """Counts a disagreement with those of its kind and head."""
        self.disagreements += 1
        next(known for known in self.findings if (known.kind, known.head) == (kind.value, term.head)).count += 1

    def note_refusal(self, reason: str) -> None:
        counts = Counter(self.refused)
        counts[short_reason(reason)] += 1
        self.refused = dict(counts)

    def note_accepted_by_spark(self, reason: str, text: str) -> None:
        """Records an expression that stretto refuses and Spark accepts."""
        entry = self.refused_but_spark_accepts.setdefault(short_reason(reason), {"count": 0, "example": text})
        entry["count"] += 1
        entry["example"] = min(entry["example"], text, key=len)

    def as_dict(self) -> dict[str, Any]:
        per_second = (self.expressions + self.aggregates) / self.seconds if self.seconds else 0.0
        plain = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in _INNER}
        findings = [asdict(each) for each in self.findings]
        return {
            **plain,
            "findings": findings,
            "evaluations_per_s": round(per_second, 1),
            "match": not self.findings and not self.interrupted,
        }


def finding(case: Case, disagreement: Disagreement, original: str) -> Finding:
    return Finding(
        disagreement.kind.value,
        case.term.shape,
        case.term.text,
        select_text(case),
        _shown(disagreement.ours),
        _shown(disagreement.sparks),
        original[:_SHOWN_MAX],
        case.term.head,
    )


def select_text(case: Case) -> str:
    """Returns a query that a person can paste into Spark."""
    names = case.term.columns()
    selected = case.term.text
    tail = ""
    if case.term.label == GROUPED:
        call, *keys = case.term.arguments
        by = ", ".join(key.text for key in keys)
        selected, tail = (f"{by}, {call.text}", f" GROUP BY {by}") if by else (call.text, "")
        names = names if "r" in names else [*names, "r"]
    if not names:
        return f"SELECT {selected}"
    places = [case.rows.schema.get_field_index(name) for name in names]
    columns = [
        [exact_text(value, case.rows.schema.field(place).type) for value in plain_values(case.rows.column(place))]
        for place in places
    ]
    rows = ", ".join(f"({', '.join(row)})" for row in zip(*columns, strict=True))
    return f"SELECT {selected} FROM VALUES {rows} AS t({', '.join(names)}){tail}"


def short_reason(reason: str) -> str:
    """Returns the fact of an error without the text that it quotes."""
    return reason.split(" in '")[0].split(' in "')[0]


def _shown(value: Any) -> str:
    shown = getattr(value, "text", None) or repr(value)
    return shown[:_SHOWN_MAX]
