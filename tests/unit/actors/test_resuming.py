"""An instance that resumes from other partitions' snapshots, where its function is not keyed."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from msgspec import structs

from stretto.actors.address import Address
from stretto.actors.context import Clock, Context
from stretto.actors.deployment import FunctionSpec
from stretto.actors.function import Function
from stretto.actors.instance import Instance
from stretto.actors.marking import snapshot_of
from stretto.actors.snapshot import Content, Origin, plain_of
from stretto.actors.work import OPEN
from stretto.errors import StorageError
from stretto.state import Fragment, ListState, MapState, State, ValueState
from stretto.state.packing import packed


class Partial(Function):
    """A combinable sum of its input."""

    sums: MapState[str, int] = MapState(operator.add)
    kept: ListState[int] = ListState()
    total: ValueState[int] = ValueState(0, operator.add)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        for n in batch.column(0).to_pylist():
            self.sums["all"] = self.sums.get("all", 0) + n
            self.kept.append(n)
            self.total.set(self.total.get() + n)
            ctx.set_timer(n, "due", Clock.PROCESSING)
            ctx.count("rows")


class Stiff(Partial):
    total = ValueState(0)


def instance(function: Function, partition: int, parallelism: int, origin: Origin | None = None) -> Instance:
    made = Instance(Address("job", "f", partition), FunctionSpec("f", function, parallelism), False, False)
    made.origin = origin
    made.apply(OPEN, 0)
    return made


def snapshots(function: Function, parallelism: int) -> dict[int, Content]:
    """Returns the snapshots of partitions that each got its own number as input."""
    found = {}
    for partition in range(parallelism):
        one = instance(function, partition, parallelism)
        one.function.process(pa.record_batch([[partition]], ["n"]), one.ctx)
        one.timers.take_from(one.ctx)
        snapshot = snapshot_of(one, 1)
        found[partition] = Content(plain_of(snapshot.plain), snapshot.fragments)
    return found


def resumed(function: Function, had: int, partition: int, parallelism: int) -> Instance:
    contents = {q: each for q, each in snapshots(function, had).items() if q % parallelism == partition}
    leads = frozenset(contents)
    origin = Origin(1, contents, whole=False, parallelism=had, leads=leads, channels={})
    return instance(function, partition, parallelism, origin)


def test_states_that_combine_are_merged() -> None:
    one = resumed(Partial(), 5, 1, 2)
    assert one.function.sums.entries == {"all": 4}
    assert one.function.kept.values == [1, 3]
    assert one.function.total.get() == 4
    assert one.timers.pending()["processing"] == [(1, "due"), (3, "due")]
    assert one.ctx.counts == {"rows": 2}
    assert one.timers.next_due(Clock.PROCESSING) == 1


def test_states_that_do_not_combine_can_move_as_a_whole() -> None:
    assert resumed(Stiff(), 2, 1, 3).function.total.get() == 1
    assert resumed(Stiff(), 2, 2, 3).function.total.get() == 0
    with pytest.raises(StorageError) as refused:
        resumed(Stiff(), 5, 1, 2)
    assert str(refused.value) == (
        "state 'total' of function 'f' cannot be divided among 2 partitions: several partitions have a value,"
        " and it has no combining function\n"
        "  Start the app with the parallelism that the function had in the checkpoint."
    )


class Strange(State):
    def fresh(self) -> Strange:
        return Strange()

    def export(self) -> Any:
        return {"a": 1}

    def restore(self, content: Any) -> None:
        content["b"]


def test_a_state_that_cannot_read_its_content_is_named() -> None:
    class Changed(Function):
        odd = Strange()

    content = Content(plain_of(snapshot_of(instance(Changed(), 0, 1), 1).plain), {"odd": Strange().fragments()})
    with pytest.raises(
        StorageError, match="state 'odd' of function 'f' does not fit its content in the checkpoint: KeyError"
    ):
        instance(Changed(), 0, 1, Origin(1, {0: content}))


def test_a_new_state_begins_empty_and_a_removed_one_is_skipped() -> None:
    (content,) = snapshots(Partial(), 1).values()
    content.fragments["gone"] = [Fragment(1, b"")]
    del content.fragments["kept"]
    one = instance(Partial(), 0, 1, Origin(1, {0: content}))
    assert one.function.kept.values == []
    assert one.function.sums.entries == {"all": 0}


# Content of another shape: the message names the file.


def changed(content: Content, **plain: Any) -> Content:
    return replace(content, plain=structs.replace(content.plain, **plain), path="data/f-0.arrow")


class Remembering(Partial):
    def remember(self) -> Any:
        return {"n": 1}

    def recall(self, remembered: Any) -> None:
        remembered["n"] + 1


@pytest.mark.parametrize(
    "plain",
    [
        {"remembered": [1]},
        {"remembered": {}},
        {"remembered": {"n": "one"}},
        {"timers": {"event": []}},
        {"consolidated": b"junk"},
        {"consolidated": packed({"unknown": 1})},
    ],
)
@pytest.mark.parametrize("whole", [True, False])
def test_content_of_another_shape_is_a_storage_error_that_names_the_file(plain: dict[str, Any], whole: bool) -> None:
    class Divided(Remembering):
        def regroup(self, remembered: dict[int, Any], checkpoint: int) -> Any:
            return remembered[0]

    (content,) = snapshots(Divided(), 1).values()
    instance(Divided(), 0, 1, Origin(1, {0: content}, whole, channels={}))  # As it was.
    with pytest.raises(StorageError, match=r"function 'f' cannot resume from data/f-0\.arrow: \w+Error: "):
        instance(Divided(), 0, 1, Origin(1, {0: changed(content, **plain)}, whole, channels={}))


def test_a_state_of_another_shape_names_its_files() -> None:
    (content,) = snapshots(Partial(), 1).values()
    for table in (pa.table({"key": ["all"], "value": [1]}), pa.table({"key": [1], "value": [1], "gone": [1]})):
        content.fragments["sums"] = [Fragment(1, table)]
        content = replace(content, paths={"sums": "data/a.arrow, data/b.arrow"})
        with pytest.raises(StorageError, match=r"state 'sums' .* does not fit its content in data/a\.arrow, data/b"):
            instance(Partial(), 0, 1, Origin(1, {0: content}))


def test_a_disk_that_is_full_while_a_state_is_read_is_not_a_misfit() -> None:
    class Full(Strange):
        def fresh(self) -> Full:
            return Full()

        def restore(self, content: Any) -> None:
            raise StorageError("no state can be spilled", "no space left")

    class Spilling(Partial):
        odd = Full()

    (content,) = snapshots(Spilling(), 1).values()
    for whole in (True, False):
        with pytest.raises(StorageError) as refused:
            instance(Spilling(), 0, 1, Origin(1, {0: content}, whole, channels={}))
        assert str(refused.value) == "no state can be spilled: no space left"
