"""Moving shards between the tasks of an executor in the middle of a stream changes no row of the answer, for every
function whose state is kept by key.

The reference is one instance that gets every row. Checkpoints are taken in between: the fragments of all tasks together
must always be the whole state, also after shards have come and gone.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.property.test_dividing import FUNCTIONS, RIGHT, SCHEMA, Partitions, drawn, fed_both, inputs_of

from stretto.actors.dividing import ShardKeys
from stretto.actors.function import EVENT_TIME_MAX_US
from stretto.actors.partitioning import divided, hash_columns, hash_rows
from stretto.actors.shards import SHARDS, shards_within
from stretto.state import State, Surveyed
from stretto.state.packing import packed, unpacked


class Tasks(Partitions):
    """Several instances of one partition, and which of them owns which shard."""

    def __init__(self, name: str, tasks: int) -> None:
        super().__init__(FUNCTIONS[name], tasks)
        self.owners = np.zeros(SHARDS, np.uint8)
        self._stored: list[dict[tuple[str, int], Any]] = [{} for _ in range(tasks)]
        """What a checkpoint store has of each task, by state and the number of the fragment."""

    def process(self, batch: pa.RecordBatch, name: str) -> None:
        shards = shards_within(hash_columns(batch, self.partitioned_by[name]))
        for task, rows in divided(batch, self.owners[shards]):
            self.contexts[task].input = name
            self.functions[task].process(rows, self.contexts[task])

    def move(self, shards: list[int], target: int) -> None:
        """Moves shards to a task from wherever they are; what is given crosses the wire."""
        for source in sorted({int(self.owners[shard]) for shard in shards} - {target}):
            given = [shard for shard in shards if self.owners[shard] == source]
            for name, state in self.functions[source].states().items():
                content = packed(state.give(self._part(name, given)))
                self.functions[target].states()[name].receive(unpacked(content))
        self.owners[shards] = target

    def _part(self, state: str, shards: list[int]) -> ShardKeys:
        side = self.functions[0].input_of(state) or "in"
        schema = RIGHT if side == "right" else SCHEMA
        return ShardKeys(pa.schema([schema.field(name) for name in self.partitioned_by[side]]), shards)

    def restored(self, name: str) -> Tasks:
        """Returns one task with all that a checkpoint of these has; a fragment is stored once, by its number."""
        other = Tasks(name, self.parallelism)
        for task, function in enumerate(self.functions):
            for state_name, state in function.states().items():
                fragments = state.fragments()
                known = self._stored[task]
                for fragment in fragments:
                    known.setdefault((state_name, fragment.number), fragment)
                stored = [known[state_name, fragment.number] for fragment in fragments]
                part = state.fresh()
                part.rebuild([_read(fragment) for fragment in stored])
                other.functions[0].states()[state_name].take_in(part)
        for ctx, own in zip(other.contexts, self.contexts, strict=True):
            ctx.watermark_us = own.watermark_us
        return other


def _read(fragment: Any) -> Any:
    content = fragment.content
    return type(fragment)(fragment.number, content.table() if hasattr(content, "table") else content)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", FUNCTIONS)
def test_moving_shards_changes_no_row(name: str, seed: int) -> None:
    chance = random.Random(seed)

    def now_and_then(tested: Tasks) -> Tasks:
        if chance.random() < 0.5:
            tested.move(chance.sample(range(SHARDS), chance.choice((1, 8, 100, 256))), chance.randrange(4))
        return tested.restored(name) if chance.random() < 0.15 else tested

    expected, found = fed_both(name, chance, Tasks(name, 4), now_and_then)
    assert expected
    assert found == expected


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_survey_sees_every_key(name: str) -> None:
    """Each state has its own survey, which must see what that of the base does, with a copy of the whole state."""
    chance = random.Random(6)
    tested = Tasks(name, 1)
    for step in range(10):
        for side, schema in inputs_of(name).items():
            tested.process(drawn(chance, step, schema), side)
    for state_name, state in tested.functions[0].states().items():
        keys = tested._part(state_name, []).keys
        found, expected = state.survey(keys), State.survey(state, keys)
        assert _hashes(found, keys) >= _hashes(expected, keys) != set()  # A copy may lack what is not needed any more.
        seeded = [state.fresh() for _ in range(2)]
        for each, surveyed in zip(seeded, (found, expected), strict=True):
            each.restore(unpacked(packed(surveyed.empty)))
        assert packed(seeded[0].export()) == packed(seeded[1].export())


def _hashes(surveyed: Surveyed, keys: pa.Schema) -> set[int]:
    columns = [[block[name] for name in keys.names] for block in surveyed.columns]
    return {value for block in columns for value in hash_rows(block).tolist()}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_given_is_gone(name: str) -> None:
    """After all shards have left, a task has nothing that a row could find."""
    chance = random.Random(5)
    tested = Tasks(name, 2)
    inputs = inputs_of(name)
    for step in range(10):
        for side, schema in inputs.items():
            tested.process(drawn(chance, step, schema), side)
    tested.rows()
    tested.move(list(range(SHARDS)), 1)
    ctx = tested.contexts[0]
    tested.functions[0].on_watermark(EVENT_TIME_MAX_US, ctx)
    tested.functions[0].on_end(ctx)
    assert not ctx.sent
