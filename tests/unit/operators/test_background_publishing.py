"""A sink that publishes in the background: what is not visible stays in the checkpoints, and parts keep their order."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from stretto.actors.address import Attempt
from stretto.actors.context import Context
from stretto.actors.sink import BackgroundWriter, Sink
from stretto.operators.ends import SinkFunction

SCHEMA = pa.schema([("n", pa.int64())])


class Slow(BackgroundWriter):
    """Needs to be asked twice for each part."""

    def __init__(self) -> None:
        self.held: list[int] = []
        self.visible: list[tuple[int, list[int]]] = []
        self._begun: tuple[int, Any] | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        self.held += batch.column(0).to_pylist()

    def seal(self, checkpoint: int) -> list[int] | None:
        held, self.held = self.held, []
        return held or None

    def check_part(self, part: Any) -> None:
        assert isinstance(part, list)

    def publishes(self, checkpoint: int, part: Any) -> bool:
        if self._begun is None:
            self._begun = (checkpoint, part)
            return False
        assert self._begun == (checkpoint, part), "one part after the other"
        self._begun = None
        self.visible.append((checkpoint, part))
        return True

    def withdraw(self, checkpoint: int) -> None:
        pass


class SlowSink(Sink):
    irrevocable = True

    def __init__(self, names: list[str]) -> None:
        self._names = names

    def within(self, function: str) -> SlowSink:
        self._names.append(function)
        return self

    def checkpointed_writer(self, schema: pa.Schema, partition: int, partitions: int, attempt: Attempt) -> Slow:
        return Slow()


def opened(names: list[str]) -> SinkFunction:
    function = SinkFunction(SlowSink(names), SCHEMA)
    ctx = Context("job", "out", 0, 1, {})
    ctx.attempt = Attempt("0123abcd", 1, 1)
    function.open(ctx)
    return function


def gets(function: SinkFunction, *numbers: int) -> None:
    function.process(pa.record_batch([list(numbers)], schema=SCHEMA), Context("job", "out", 0, 1, {}))


def test_what_is_not_visible_stays_in_the_checkpoints() -> None:
    function = opened([])
    gets(function, 1)
    function.seal(1)
    assert function.publish(1) is False
    gets(function, 2)
    function.seal(2)
    assert function.remember() == [2, [(1, [1]), (2, [2])]]
    assert function.publish(1) is True
    assert function.remember() == [2, [(2, [2])]]
    assert function.writer.visible == [(1, [1])]


def test_a_later_checkpoint_publishes_what_is_left_of_earlier_ones_first() -> None:
    function = opened([])
    for checkpoint in (1, 2, 3):
        gets(function, checkpoint)
        function.seal(checkpoint)
    while not function.publish(2):
        pass
    assert function.writer.visible == [(1, [1]), (2, [2])]
    assert function.remember() == [3, [(3, [3])]]


def test_whoever_resumes_publishes_it() -> None:
    names: list[str] = []
    function, other = opened(names), opened(names)
    gets(function, 1)
    function.seal(1)
    function.publish(1)
    other.recall(function.remember())
    while not other.publish(1):
        pass
    assert other.writer.visible == [(1, [1])]
    assert names == ["out", "out"]
    assert function.irrevocable
