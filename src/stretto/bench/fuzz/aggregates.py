"""Random aggregates by random keys, stretto's running aggregate beside Spark's GROUP BY.

An aggregate is a term `call BY key, ...`, so that it is made small as expressions are; some have no key. Keys have
nulls, NaN and -0.0. Calls are made of every aggregate of the registry (`aggregate_forms`), with DISTINCT and FILTER.
Rows are numbered by a column of their own, which orders `max_by` and `min_by` without ties.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.types as pat
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame

from stretto.actors.context import Context
from stretto.bench.fuzz.aggregate_forms import NUMBER, aggregate_forms
from stretto.bench.fuzz.answers import Answer, Answered, Failure, Refused
from stretto.bench.fuzz.columns import random_rows
from stretto.bench.fuzz.forms import Form
from stretto.bench.fuzz.generator import Generator
from stretto.bench.fuzz.plain import array_of, plain_values
from stretto.bench.fuzz.sparks import FAILED, MONTHS, ROW, SparkOracle
from stretto.bench.fuzz.terms import Term, column, family, literal
from stretto.errors import StrettoError
from stretto.expressions import AggregateCall, parse_aggregate, spark_type_name
from stretto.operators.running import RunningAggregate

GROUPED = "group"
FILTER = " FILTER (WHERE "
BATCHES = 3
"""Batches that the rows arrive in, so that partial states are merged."""
_AS_MONTHS = "cast(cast({} as interval month) as int)"
DISTINCT_SHARE, FILTER_SHARE = 0.12, 0.25
_COLUMN_SHARE = 0.7
_TRIES_MAX = 150
"""Random arguments that are tried with a call; of the types of columns, some calls take one."""


def aggregate_rows(schema: pa.Schema, count: int, rng: Random) -> pa.RecordBatch:
    """Returns rows with few distinct keys. Doubles are quarters, whose sums do not depend on their order."""
    pool = random_rows(schema, max(count // 6, 3), rng)
    rows = pool.take(pa.array([rng.randrange(pool.num_rows) for _ in range(count)]))
    arrays = [
        array_of([_quarter(rng) for _ in range(count)], field.type)
        if pat.is_floating(field.type)
        else rows.column(place)
        for place, field in enumerate(schema)
    ]
    numbered = [*arrays, pa.array(range(count), pa.int64())]
    return pa.record_batch(numbered, schema=schema.append(pa.field(NUMBER, pa.int64())))


def _quarter(rng: Random) -> float | None:
    if rng.random() < 0.25:
        return rng.choice((None, float("nan"), -0.0, 0.0, float("inf")))
    return rng.randint(-8, 8) / 4


class AggregateGenerator:
    """Makes random aggregates that the compiler accepts."""

    def __init__(self, terms: Generator, schema: pa.Schema, rng: Random, calls: Sequence[Form] | None = None) -> None:
        self._calls = aggregate_forms() if calls is None else calls
        self._terms = terms
        self._schema = schema
        self._rng = rng
        self.refused: set[Form] = set()
        """Calls of which nothing that was tried is accepted."""

    def term(self, keys: Sequence[Term]) -> Term:
        """Returns an aggregate by these keys; count(*) if nothing else is accepted."""
        while left := [form for form in self._calls if form not in self.refused]:
            form = self._rng.choices(left, [form.weight for form in left])[0]
            for _ in range(_TRIES_MAX):
                call = self._call(form)
                if self._accepts(call):
                    return grouped(call, keys)
            self.refused.add(form)
        return grouped(Term("count", ("count(*)",)), keys)

    def _call(self, form: Form) -> Term:
        """Returns a call with random arguments, and sometimes with DISTINCT and FILTER."""
        hints = dict(form.hints)
        arguments = [
            literal(self._rng.choice(hints[place]), "", fixed=True) if place in hints else self._argument()
            for place in range(form.arity)
        ]
        pieces = list(form.pieces)
        if form.arity and self._rng.random() < DISTINCT_SHARE:
            pieces[0] += "DISTINCT "
        if self._rng.random() < FILTER_SHARE:
            pieces[-1] += FILTER
            pieces.append(")")
            arguments.append(self._condition())
        return Term(form.label, tuple(pieces), tuple(arguments))

    def _accepts(self, call: Term) -> bool:
        try:
            parse_aggregate(call.text, self._schema)
        except Exception:  # Where the compiler breaks, the expression alone shows it.
            return False
        return True

    def keys(self) -> list[Term]:
        """Returns up to two columns to group by; an array or a map is none."""
        simple = [field for field in self._schema if not pat.is_nested(field.type) and field.name != NUMBER]
        fields = self._rng.sample(simple, self._rng.choice((0, 1, 1, 1, 2, 2)))
        return [column(field.name, family(field.type)) for field in fields]

    def _argument(self) -> Term:
        if self._rng.random() < _COLUMN_SHARE or not self._terms.has_forms:
            field = self._rng.choice(list(self._schema)[:-1])
            return column(field.name, family(field.type))
        return self._terms.term(2)

    def _condition(self) -> Term:
        if self._rng.random() < _COLUMN_SHARE:
            return column("b", "boolean")
        return self._terms.term_of("boolean", 2) or column("b2", "boolean")


def grouped(call: Term, keys: Sequence[Term]) -> Term:
    """Returns an aggregate as a term, by these keys or by none."""
    pieces = ("", *(" BY " if place == 0 else ", " for place in range(len(keys))), "")
    return Term(GROUPED, pieces, (call, *keys))


def our_answer(term: Term, rows: pa.RecordBatch) -> Answer:
    """Returns the answer of a running aggregate: a row for each group, in the order of their keys."""
    keys = [key.text for key in term.arguments[1:]]
    try:
        call = parse_aggregate(term.arguments[0].text, rows.schema, "v")
        function = RunningAggregate(rows.schema, tuple(keys), (call,))
    except StrettoError as error:
        return Refused(error.fact)
    except Exception as error:
        return Refused(f"{type(error).__name__}: {error}", crash=True)
    try:
        return Answered(spark_type_name(call.type), in_order(_run(function, rows), len(keys)))
    except StrettoError as error:
        return Answered(spark_type_name(call.type), [Failure(error.fact)])
    except Exception as error:  # A finding.
        return Answered(spark_type_name(call.type), [Failure(f"{type(error).__name__}: {error}"[:200], crash=True)])


def _run(function: RunningAggregate, rows: pa.RecordBatch) -> list[tuple[Any, ...]]:
    function.bind_states()
    ctx = Context("fuzz", "aggregate", 0, 1, {"out": function.schema})
    step = -(-rows.num_rows // BATCHES) or 1
    for start in range(0, rows.num_rows, step):
        function.process(rows.slice(start, step), ctx)
    latest: dict[str, tuple[Any, ...]] = {}
    for _, batch in ctx.sent:
        assert isinstance(batch, pa.RecordBatch)
        for row in zip(*(plain_values(each) for each in batch.columns), strict=True):
            latest[repr([_key(value) for value in row[:-1]])] = row
    return list(latest.values())


class Division(Enum):
    """How Spark has its rows when it aggregates them."""

    TOGETHER = "in one partition, in their order"
    APART = "each in a partition of its own"


def spark_answer(
    oracle: SparkOracle, term: Term, rows: pa.RecordBatch, division: Division = Division.TOGETHER
) -> Answer:
    """Returns Spark's answer for an aggregate."""
    return _asked(oracle, [term], rows, division)[0]


def spark_answers(
    oracle: SparkOracle, terms: Sequence[Term], mine: Sequence[Answer], rows: pa.RecordBatch
) -> list[Answer]:
    """Returns Spark's answers for aggregates by the same keys, in few queries.

    A query fails as a whole, so what fails here is asked alone: most of it fails there too. So is what has DISTINCT,
    since Spark groups such a query twice, and the order of rows is lost on the way, on which `first` depends. It may
    be only in the SQL: approx_count_distinct is exact here."""
    together: dict[object, list[int]] = {}
    for place, (term, answer) in enumerate(zip(terms, mine, strict=True)):
        alone = _fails(answer)
        together.setdefault((place,) if alone else "DISTINCT" in _call(term, rows.schema).sql, []).append(place)
    found: dict[int, Answer] = {}
    for places in together.values():
        answers = _asked(oracle, [terms[place] for place in places], rows, Division.TOGETHER)
        found |= dict(zip(places, answers, strict=True))
    return [found[place] for place in range(len(terms))]


def _fails(answer: Answer) -> bool:
    return isinstance(answer, Refused) or any(isinstance(row, Failure) for row in answer.rows)


def _asked(oracle: SparkOracle, terms: Sequence[Term], rows: pa.RecordBatch, division: Division) -> list[Answer]:
    """Returns Spark's answers for aggregates by the same keys, in one query unless one of them fails."""
    if not terms:
        return []
    selected: DataFrame | None = None
    try:
        selected = _selected(oracle, terms, rows, division)
        return _evaluated(oracle, selected, len(terms[0].arguments) - 1)
    except Exception as error:  # An error of Spark's, or of PySpark's for a type that Arrow does not have.
        if len(terms) > 1:
            middle = len(terms) // 2
            halves = (terms[:middle], terms[middle:])
            return [answer for half in halves for answer in _asked(oracle, half, rows, division)]
        if isinstance(error, AnalysisException):
            return [Refused(str(error).splitlines()[0][:200])]
        if selected is None:
            raise
        kind = selected.dtypes[-1][1]
        if isinstance(error, PySparkException):
            return [Answered(kind, [FAILED])]
        return [Answered(kind, [], comparable=False)]


def _evaluated(oracle: SparkOracle, selected: DataFrame, keys: int) -> list[Answer]:
    """Returns the answers of aggregates that are selected behind their keys."""
    names, kinds = selected.columns[:keys], [kind for _, kind in selected.dtypes[keys:]]
    # Arrow has no intervals of months.
    sent = [_AS_MONTHS.format(f"v{place}") if kind in MONTHS else f"v{place}" for place, kind in enumerate(kinds)]
    table = selected.select(*names, *(oracle.column(text, f"s{place}") for place, text in enumerate(sent))).toArrow()
    values = [plain_values(column.combine_chunks()) for column in table.columns]
    found = values[:keys]
    return [
        Answered(kind, in_order(list(zip(*found, each, strict=True)), keys))
        for kind, each in zip(kinds, values[keys:], strict=True)
    ]


def _selected(oracle: SparkOracle, terms: Sequence[Term], rows: pa.RecordBatch, division: Division) -> DataFrame:
    keys = [key.text for key in terms[0].arguments[1:]]
    columns = [oracle.column(_call(term, rows.schema).sql, f"v{place}") for place, term in enumerate(terms)]
    frame = oracle.frame(rows)
    # In one partition, since `first` and `last` are by the order of rows.
    divided = frame.coalesce(1) if division is Division.TOGETHER else frame.repartitionByRange(rows.num_rows, ROW)
    return divided.groupBy(*keys).agg(*columns)


def _call(term: Term, schema: pa.Schema) -> AggregateCall:
    return parse_aggregate(term.arguments[0].text, schema)


def in_order(rows: list[tuple[Any, ...]], keys: int) -> list[Any]:
    """Returns the rows by their keys, which are equal where Spark groups them together."""
    normal = [(*(_key(value) for value in row[:keys]), *row[keys:]) for row in rows]
    return sorted(normal, key=lambda row: repr(row[:keys]))


def _key(value: Any) -> Any:
    return 0.0 if isinstance(value, float) and value == 0 else value
