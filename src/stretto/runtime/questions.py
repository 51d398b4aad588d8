"""Questions of users' threads: compiled here, handed to the broker in the driver's own worker, waited for, merged."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stretto.actors.deployment import Deployment
from stretto.api.plan import Plan
from stretto.api.publishing import published_tables
from stretto.errors import ClusterError, UserError
from stretto.operators.shown import fitted, settled, together
from stretto.protocol.jobs import Failure
from stretto.queries.answers import Answer, Gathered, Missing, Question, TableName
from stretto.queries.askable import Askable, AskableState, AskableTable, state_name
from stretto.queries.clauses import Select
from stretto.queries.moments import microseconds_of
from stretto.queries.select import Compiled, TableShape, compiled, read_question
from stretto.queries.state_asking import StateGathered, StateQuestion
from stretto.rendering import error_text
from stretto.runtime.failures import error_of
from stretto.state.packing import packed, unpacked
from stretto.worker.events import Event, PassGathered, QuestionAsked, StateAsked

SMALL_BYTES_MAX = 16 << 20
"""The most bytes of a table that another one is joined with: it goes to every worker."""
WAIT_STEP_S = 0.5
"""Waits are cut into steps of this length, so that Ctrl-C is noticed."""
LATE_S = 5.0
"""The broker answers in time, also with what is missing; it is waited for a little longer."""
STATE = "state."


@dataclass(frozen=True)
class Tables:
    """A published table, as the driver knows it: who publishes it, and its columns."""

    name: TableName
    schema: pa.Schema


class Questions:
    """The tables of a cluster, and those who wait for answers. `post` has the loop of the driver's worker handle an
    event."""

    def __init__(self, zone: Callable[[], str]) -> None:
        self._zone = zone
        self._post: Callable[[Callable[[], Event]], None] | None = None
        self._lock = threading.Lock()
        self._tables: dict[str, Tables] = {}
        self._states: dict[str, list[AskableState]] = {}
        self._waiting: set[Future[Any]] = set()
        self._closed = False

    def opened(self, post: Callable[[Callable[[], Event]], None]) -> None:
        """The driver's worker is there."""
        self._post = post

    def close(self) -> None:
        """The cluster ends, and with it all questions."""
        with self._lock:
            self._closed = True
            waiting, self._waiting = self._waiting, set()
        for future in waiting:
            future.set_exception(ClusterError("the cluster was closed", "a question was not answered yet"))

    # Tables.

    def check(self, plan: Plan, running: Sequence[str]) -> None:
        """Raises a UserError if another running job publishes a table of the plan."""
        for _, sink in published_tables(plan):
            known = self._tables.get(sink.table.lower())
            if known is not None and known.name.job in running:
                raise UserError(
                    f"table '{sink.table}' is published already",
                    f"by app '{known.name.job}'",
                    "Give one of the two another name.",
                )

    def publish(self, job: str, plan: Plan, deployment: Deployment) -> None:
        """A job publishes the tables of its plan from now on, and its functions have state."""
        self._states[job] = list(_states(job, deployment))
        for node, sink in published_tables(plan):
            schema = plan.nodes[node.inputs[0]].schema
            name = TableName(sink.table, job, sink.segment_us, sink.time)
            self._tables[sink.table.lower()] = Tables(name, schema)

    def ended(self, job: str) -> None:
        """A job has ended. Its tables can still be asked, its functions have no state any more."""
        self._states.pop(job, None)

    @property
    def askable(self) -> Askable:
        """What can be asked now."""
        tables = [
            AskableTable(each.name.table, each.name.job, each.schema, each.name.time, each.name.segment_us)
            for each in list(self._tables.values())
        ]
        return Askable(tuple(tables), tuple(state for states in list(self._states.values()) for state in states))

    @property
    def names(self) -> list[str]:
        """The names of the published tables."""
        return sorted(each.name.table for each in self._tables.values())

    def _table(self, name: str, position: int) -> Tables:
        found = self._tables.get(name.lower())
        if found is None:
            known = ", ".join(self.names) or "none"
            raise UserError(
                f"there is no table '{name}'",
                f"at position {position}; published tables: {known}",
                "Publish a stream with stream.publish(), or ask for the state of a function as state.Name.",
            )
        return found

    # Asking.

    def answer(
        self, text: str, timeout_s: float, at_least: datetime.datetime | None = None, now_us: int | None = None
    ) -> Answer:
        """Asks, waits, and returns the answer; raises what went wrong."""
        if timeout_s <= 0:
            raise UserError("the timeout of a question must be more than 0", f"it is {timeout_s:g} s")
        zone = self._zone()
        now = datetime.datetime.now(datetime.UTC)
        select = read_question(text, microseconds_of(now) if now_us is None else now_us, zone)
        small: pa.Table | None = None
        missing: tuple[Missing, ...] = ()
        if select.join is not None:
            small, missing = self._small(select.join.table.name, select.join.table.position, zone, timeout_s)
        if select.table.name.lower().startswith(STATE):
            if at_least is not None:
                raise UserError(
                    "the state of a function has no event time",
                    f"at position {select.table.position}, and at_least is {at_least.isoformat()}",
                    "Ask without at_least, or ask for a published table.",
                )
            return self._of_state(select, zone, small, timeout_s)
        table = self._table(select.table.name, select.table.position)
        question = compiled(select, TableShape(table.schema, table.name.time), zone, small)
        gathered = self._gathered(select, question, table, zone, small, timeout_s, at_least)
        evaluation = question.evaluation
        answer = evaluation.finished([evaluation.unpacked(part) for part in gathered.parts])
        return Answer(answer, gathered.as_of_us, (*missing, *gathered.missing), gathered.rows, gathered.workers)

    def _gathered(
        self,
        select: Select,
        question: Compiled,
        table: Tables,
        zone: str,
        small: pa.Table | None,
        timeout_s: float,
        at_least: datetime.datetime | None,
    ) -> Gathered:
        future: Future[Gathered] = self._promised()
        asked = Question(
            future,
            table.name,
            select.text,
            zone,
            table.schema.serialize().to_pybytes(),
            None if small is None else packed(small),
            question.span.first_us,
            question.span.last_us,
            int(timeout_s * 1e9),
            None if at_least is None else microseconds_of(at_least),
        )
        found: Gathered = self._waited(future, QuestionAsked(asked), timeout_s)
        return found

    def _small(self, name: str, position: int, zone: str, timeout_s: float) -> tuple[pa.Table, tuple[Missing, ...]]:
        """Returns all rows of a table that another one is joined with."""
        if name.lower().startswith(STATE):
            gathered = self._state(name, timeout_s)
            return _state_rows(gathered), gathered.missing
        table = self._table(name, position)
        select = read_question(f"SELECT * FROM {name}", 0, zone)
        question = compiled(select, TableShape(table.schema, table.name.time), zone)
        found = self._gathered(select, question, table, zone, None, timeout_s, None)
        rows = question.evaluation.finished([question.evaluation.unpacked(part) for part in found.parts])
        if rows.nbytes > SMALL_BYTES_MAX:
            raise UserError(
                f"table '{name}' is too large to be joined",
                f"at position {position}: it has {rows.nbytes} bytes of at most {SMALL_BYTES_MAX}",
                "Have the smaller table after JOIN, or join them with Spark.",
            )
        return rows, found.missing

    # State.

    def _state(self, name: str, timeout_s: float) -> StateGathered:
        found = self._known_state(name[len(STATE) :])
        future: Future[Any] = self._promised()
        asked = StateAsked(StateQuestion(future, found.function, found.state, int(timeout_s * 1e9)))
        gathered: StateGathered = self._waited(future, asked, timeout_s)
        return gathered

    def _known_state(self, name: str) -> AskableState:
        """Returns the state of this name: that of a function, or one of several."""
        known = self.askable.states
        here = [each for each in known if each.function == name]
        here = here or [each for each in known if f"{each.function}.{each.state}" == name]
        if not here:
            names = ", ".join(each.name for each in known) or "none"
            raise UserError(
                f"there is no state '{name}'", f"states that can be asked: {names}", "Look at app.explain()."
            )
        if len({each.job for each in here}) > 1:
            jobs = ", ".join(sorted({each.job for each in here}))
            raise UserError(
                f"several jobs have a function '{here[0].function}'", jobs, "Give one of them another name."
            )
        if len(here) > 1:
            names = ", ".join(each.state for each in here)
            raise UserError(f"function '{name}' has several states", names, f"Ask for one: {here[0].name}")
        return here[0]

    def _of_state(self, select: Select, zone: str, small: pa.Table | None, timeout_s: float) -> Answer:
        gathered = self._state(select.table.name, timeout_s)
        rows = _state_rows(gathered)
        evaluation = compiled(select, TableShape(rows.schema), zone, small).evaluation
        return Answer(
            evaluation.finished([evaluation.part(rows.combine_chunks().to_batches())]),
            None,
            gathered.missing,
            rows.num_rows,
        )

    # Waiting.

    def _promised(self) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            if self._closed:
                raise ClusterError("the cluster is closed", None, "Ask inside the with block.")
            self._waiting.add(future)
        return future

    def _waited(self, future: Future[Any], asked: Event, timeout_s: float) -> Any:
        assert self._post is not None
        self._post(lambda: asked)
        left_s = timeout_s + LATE_S
        try:
            while left_s > 0:
                try:
                    found = future.result(min(WAIT_STEP_S, left_s))
                except TimeoutError:
                    left_s -= WAIT_STEP_S
                    continue
                if found.failure is not None:
                    raise _error(found.failure)
                return found
            raise ClusterError("a question was not answered", f"within {timeout_s:g} s", "The driver may be too busy.")
        finally:
            with self._lock:
                self._waiting.discard(future)

    def pass_on(self, effect: PassGathered) -> None:
        """Hands out what the broker has gathered; called by its loop."""
        for gathered in effect.gathered:
            with self._lock:
                waits = gathered.ticket in self._waiting
                self._waiting.discard(gathered.ticket)
            if waits:
                gathered.ticket.set_result(gathered)


def _states(job: str, deployment: Deployment) -> Iterator[AskableState]:
    for name, spec in sorted(deployment.functions.items()):
        states = spec.function.states()
        for state in states:
            yield AskableState(state_name(name, state, len(states) == 1), job, name, state)


def _state_rows(gathered: StateGathered) -> pa.Table:
    """Returns the rows of all partitions under one schema, with the fields of a key and of a value as columns."""
    tables = [_flat(unpacked(data), partition) for partition, _, data in gathered.tables]
    if not tables:
        return pa.table({"partition": pa.array([], pa.int32())})
    kinds: dict[str, pa.DataType] = {}
    for table in tables:
        for field in table.schema:
            kinds[field.name] = together(kinds.get(field.name, pa.null()), field.type)
    schema = pa.schema([(name, settled(kind)) for name, kind in kinds.items()])
    return pa.concat_tables([_under(table, schema) for table in tables])


def _flat(table: pa.Table, partition: int) -> pa.Table:
    """Returns the fields of `key` and `value` as columns; a value whose name a key has gets a name of its own."""
    found: dict[str, pa.Array] = {}
    for side in ("key", "value"):
        column = table.column(side).combine_chunks()
        for place, field in enumerate(column.type if pa.types.is_struct(column.type) else ()):
            name = field.name if field.name not in found else f"{side}_{field.name}"
            found[name] = column.field(place)
    found["partition"] = pa.array([partition] * table.num_rows, pa.int32())
    return pa.table(found)


def _under(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [
        fitted(table.column(field.name).combine_chunks(), field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _error(failure: Failure) -> Exception:
    try:
        return error_of(failure)
    except Exception as error:
        return ClusterError("a question failed", error_text(error))
