"""Checkpoints that somebody has changed, with matching checksums: each is read as what it says, or refused.

A start reads and removes what a manifest names, and publishes what the snapshot of a sink names. Whatever these say, a
StorageError names the file at fault, or everything is read; nothing else is raised, and nothing outside of the
checkpoint directory and of the output directory is touched.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from stretto.actors.address import Address, Attempt
from stretto.actors.context import Context
from stretto.actors.critical import Mark
from stretto.actors.deployment import FunctionSpec
from stretto.actors.function import Function
from stretto.actors.instance import Instance
from stretto.actors.marking import pass_mark
from stretto.actors.shape import FunctionShape
from stretto.actors.snapshot import Origin
from stretto.actors.work import OPEN, Outcome
from stretto.api.memory import CollectSink, MemorySource
from stretto.checkpoints import pieces
from stretto.checkpoints.fitting import check_fit
from stretto.checkpoints.manifest import Manifest, checksum_of, digest_of, encoded
from stretto.checkpoints.resuming import Resumption
from stretto.checkpoints.store import CheckpointStore
from stretto.errors import SourceError, StorageError
from stretto.expressions import compile_scalar, parse_aggregate
from stretto.operators.ends import SinkFunction, SourceFunction
from stretto.operators.joins import Matching, UnboundedJoin
from stretto.operators.ranking import ranking
from stretto.operators.running import RunningAggregate
from stretto.operators.sessions import SessionAggregate
from stretto.operators.top import WindowTop
from stretto.operators.windowed import WindowAggregate
from stretto.operators.windows import EventTime, Tumbling
from stretto.runtime.connectors.sinks import CallbackSink, ParquetSink
from stretto.runtime.state_reader import _tables, _wanted
from stretto.runtime.storage import LocalFiles
from stretto.state import ListState, MapState, ValueState
from stretto.state.packing import packed, unpacked

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string()), ("t", pa.timestamp("us", "UTC"))])
RIGHT = pa.schema([(f"r_{field.name}", field.type) for field in SCHEMA])
TIME = EventTime("t")
CALLS = tuple(parse_aggregate(text, SCHEMA) for text in ("count(*) AS n", "max(s) AS most", "avg(k) AS mean"))
ROWS = pa.record_batch([[1, 2, 1], ["a", "b", None], [5, 15, 25]], schema=SCHEMA)


class Kept(Function):
    """A user's function with every kind of state."""

    sums: MapState[Any, Any] = MapState()
    kept: ListState[int] = ListState()
    last: ValueState[Any] = ValueState(None)

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        for key, text in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            self.sums[key, text] = key
            self.kept.append(key)
        self.last.set({"rows": batch.num_rows})
        ctx.set_timer(7, ("due", 1))
        ctx.count("rows", batch.num_rows)

    def remember(self) -> Any:
        return {"seen": [1, 2]}

    def recall(self, remembered: Any) -> None:
        sum(remembered["seen"])

    def regroup(self, remembered: dict[int, Any], checkpoint: int) -> Any:
        return remembered[0]


def functions(output: Path) -> dict[str, Callable[[], Function]]:
    source = MemorySource(pa.Table.from_batches([ROWS] * 3))
    return {
        "source": lambda: SourceFunction(source, TIME, 0, None, 1, 100, 0, SCHEMA),
        "kept": Kept,
        "running": lambda: RunningAggregate(SCHEMA, ("k", "s"), CALLS),
        "distinct": lambda: RunningAggregate(SCHEMA, ("k",), (parse_aggregate("count(DISTINCT s) AS n", SCHEMA),)),
        "windows": lambda: WindowAggregate(SCHEMA, ("k",), TIME, Tumbling(10), CALLS),
        "sessions": lambda: SessionAggregate(SCHEMA, ("s",), TIME, 5, CALLS),
        "top": lambda: WindowTop(SCHEMA, ("k",), TIME, Tumbling(10), ranking(compile_scalar("s", SCHEMA), 2)),
        "join": lambda: UnboundedJoin(SCHEMA, RIGHT, Matching((("k", "r_k"),), pa.schema([*SCHEMA, *RIGHT]))),
        "parquet": lambda: SinkFunction(ParquetSink(output, mode="append"), SCHEMA),
        "collect": lambda: SinkFunction(CollectSink(), SCHEMA),
        "callback": lambda: SinkFunction(CallbackSink(print), SCHEMA),
    }


SINKS = ("parquet", "collect", "callback")


def made(name: str, output: Path, attempt: int) -> Instance:
    function = functions(output)[name]()
    one = Instance(Address("app", name, 0), FunctionSpec(name, function, 1), name == "source", name in SINKS)
    one.ctx = Context("app", name, 0, 1, {"out": getattr(function, "schema", ROWS.schema)})
    one.belong_to(Attempt("0123abcd", attempt, 1))
    one.read_splits(1)
    return one


def shapes(output: Path) -> dict[str, FunctionShape]:
    return {
        name: FunctionShape(name, 1, states=made(name, output, 1).function.layouts(), splits=int(name == "source"))
        for name in functions(output)
    }


def written(one: Instance, store: CheckpointStore, checkpoint: int) -> Any:
    """Has an actor get rows and take its snapshot; returns the record."""
    if one.is_source:
        one.function.read(0)
    else:
        one.ctx.input = "left"
        one.function.process(ROWS, one.ctx)
        one.timers.take_from(one.ctx)
    outcome = Outcome(0)
    pass_mark(one, Mark(checkpoint), outcome)
    assert outcome.snapshot is not None
    return store.store(one.address, outcome.snapshot)


@dataclass(frozen=True)
class World:
    """Files of a user: checkpoints 1 and 2 with a savepoint, the output, and files that are nobody else's business."""

    home: Path

    @property
    def checkpoints(self) -> Path:
        return self.home / "checkpoints"

    @property
    def output(self) -> Path:
        return self.home / "out"

    def outside(self) -> dict[str, bytes]:
        inside = (str(self.checkpoints), str(self.output))
        files = [path for path in self.home.rglob("*") if path.is_file() and not str(path).startswith(inside)]
        return {str(path): path.read_bytes() for path in files}


def fill(world: World) -> None:
    (world.home / "library").mkdir()
    (world.home / "library" / "module.py").write_text("print('imported')")
    (world.home / "secret").write_bytes(b"secret")
    store = CheckpointStore(LocalFiles(str(world.checkpoints)))
    store.claim()
    instances = {name: made(name, world.output, 1) for name in functions(world.output)}
    for one in instances.values():
        one.apply(OPEN, 0)
    for checkpoint in (1, 2):
        records = {name: [written(one, store, checkpoint)] for name, one in instances.items()}
        taken = Manifest("app", checkpoint, records, "saved" if checkpoint == 1 else None, shapes=shapes(world.output))
        store.commit(taken)
        if taken.savepoint is not None:
            store.save(taken)
    for one in instances.values():
        one.close()


@cache
def template() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as home:
        fill(World(Path(home)))
        files = [path for path in Path(home).rglob("*") if path.is_file()]
        return {str(path.relative_to(home)): path.read_bytes() for path in files}


@contextmanager
def world() -> Iterator[World]:
    with tempfile.TemporaryDirectory() as home:
        for path, content in template().items():
            place = Path(home, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        yield World(Path(home))


# Changing things.

OUT = [
    "../secret",
    "../library/module.py",
    "data/../../secret",
    "/{home}/secret",
    "_part-00000-0123abcd-000001-000001-e000001-00000-../../secret.parquet",
    "\0",
    "",
]
STRANGE = st.one_of(
    st.sampled_from(OUT),
    st.sampled_from(
        [None, True, -1, 0, 1, 2**40, 2**62, 2**64, -(2**63), 1.5, float("nan"), "x", [], {}, [[]], {"": 0}]
    ),
    st.integers(),
    st.text(max_size=3),
)


def changed(draw: Callable[[Any], Any], value: Any) -> Any:
    """Returns plain data in which one place, at any depth, is something else, missing, or twice there."""
    nested = [child for child in _children(value) if draw(st.booleans())]
    if nested:
        place = draw(st.sampled_from(nested))
        return _with(value, place, changed(draw, _at(value, place)))
    children = _children(value)
    if children and draw(st.booleans()):
        place = draw(st.sampled_from(children))
        return (
            _without(value, place)
            if draw(st.booleans())
            else _with(value, place, _at(value, draw(st.sampled_from(children))))
        )
    if isinstance(value, int) and not isinstance(value, bool) and draw(st.booleans()):
        return value + draw(st.integers(-3, 3))
    return draw(STRANGE)


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value)
    return list(range(len(value))) if isinstance(value, list | tuple) else []


def _at(value: Any, place: Any) -> Any:
    return value[place]


def _with(value: Any, place: Any, part: Any) -> Any:
    if isinstance(value, dict):
        return {**value, place: part}
    return type(value)([*value[:place], part, *value[place + 1 :]])


def _without(value: Any, place: Any) -> Any:
    if isinstance(value, dict):
        return {key: part for key, part in value.items() if key != place}
    return type(value)([*value[:place], *value[place + 1 :]])


def changed_table(draw: Callable[[Any], Any], table: pa.Table) -> pa.Table:
    column = draw(st.integers(0, max(0, table.num_columns - 1)))
    match draw(st.sampled_from(["cast", "drop", "rename", "none", "rows", "double"])):
        case "cast" if table.num_columns:
            kind = draw(st.sampled_from([pa.int8(), pa.int64(), pa.string(), pa.large_binary(), pa.null()]))
            return table.set_column(column, table.field(column).with_type(kind), pa.nulls(table.num_rows, kind))
        case "drop" if table.num_columns:
            return table.remove_column(column)
        case "rename" if table.num_columns:
            return table.rename_columns(
                [draw(st.text(max_size=2)) if n == column else name for n, name in enumerate(table.column_names)]
            )
        case "none":
            return pa.table({})
        case "rows":
            return table.slice(0, draw(st.integers(0, table.num_rows)))
    return pa.concat_tables([table, table])


def changed_content(draw: Callable[[Any], Any], content: bytes) -> Any:
    found = pieces.decoded(content, "")
    if isinstance(found, pa.Table):
        return pieces.encoded(changed_table(draw, found))
    return pieces.encoded(packed(changed(draw, unpacked(found))))


def change_manifest(draw: Callable[[Any], Any], files: World, path: Path) -> None:
    sealed = json.loads(path.read_bytes())
    text = json.dumps(changed(draw, sealed["manifest"])).replace("/{home}", str(files.home)).encode()
    path.write_bytes(b'{"digest": "%s", "manifest": %s}' % (digest_of(text).encode(), text))


def change_piece(draw: Callable[[Any], Any], files: World, path: Path) -> None:
    """Changes a snapshot or a fragment, by its meaning or by a bit."""

    def change(content: bytes) -> bytes:
        if draw(st.booleans()):
            return bytes(changed_content(draw, content))
        bit = draw(st.integers(0, len(content) * 8 - 1))
        return content[: bit // 8] + bytes([content[bit // 8] ^ (1 << bit % 8)]) + content[bit // 8 + 1 :]

    function = draw(st.sampled_from(sorted(functions(files.output))))
    rewrite(files, path, function, change, draw(st.integers(0, 3)))


def change_names(draw: Callable[[Any], Any], files: World, path: Path) -> None:
    """Changes the names of the files that a sink is to publish."""

    def change(content: bytes) -> bytes:
        found = pieces.decoded(content, "")
        assert isinstance(found, bytes)
        plain = unpacked(found)
        name = st.sampled_from([*OUT, *os.listdir(files.output)]).map(
            lambda text: text.replace("/{home}", str(files.home))
        )
        plain["remembered"][1] = [(1, [draw(st.tuples(name, name))])]
        return bytes(pieces.encoded(packed(plain)))

    rewrite(files, path, "parquet", change, 0)


def rewrite(files: World, path: Path, function: str, change: Callable[[bytes], bytes], place: int) -> None:
    """Changes the plain data of a function or one of its fragments, and the checksum in the manifest."""
    manifest = msgspec.json.decode(path.read_bytes())["manifest"]
    (record,) = manifest["functions"][function]
    fragments = [fragment for each in record["states"].values() for fragment in each]
    place = min(place, len(fragments))
    where, offset, size, _ = record["plain"] if place == 0 else fragments[place - 1][1]
    new = change((files.checkpoints / where).read_bytes()[offset : offset + size])
    other = f"{where.removesuffix('.arrow')}-changed.arrow"
    (files.checkpoints / other).write_bytes(new)
    piece = [other, 0, len(new), checksum_of(new)]
    if place == 0:
        record["plain"] = piece
    else:
        fragments[place - 1][1] = piece
    path.write_bytes(encoded(msgspec.convert(manifest, type=Manifest)))


# Starting from it.


def start(files: World, savepoint: str | None, divided: bool = False) -> None:
    """Does what a start does, without workers: finds a checkpoint, resumes all actors from it, and publishes. The
    actors resume as the same, or as if the partitions had been `divided` otherwise."""
    store = CheckpointStore(LocalFiles(str(files.checkpoints)))
    store.claim()
    manifests, _ = store.manifests()
    if savepoint is not None:
        manifests = [store.savepoint(savepoint)]
        store.go_back(manifests)
    if not manifests:
        return
    last = manifests[-1]
    now = shapes(files.output)
    check_fit("app", now, last, drop_state=True)
    store.sweep(manifests)
    resumption = Resumption(last, now)
    for name in now:
        resume(files, store, last, resumption, name, divided)
    store.commit(msgspec.structs.replace(last, checkpoint=last.checkpoint + 1))
    store.prune([msgspec.structs.replace(last, checkpoint=last.checkpoint + 1)])


def resume(
    files: World, store: CheckpointStore, manifest: Manifest, resumption: Resumption, name: str, divided: bool
) -> None:
    one = made(name, files.output, store.owner)
    whole = resumption.is_whole(name) and not (divided and name != "collect")  # That one never has several partitions.
    followed = {q: each for q, each in resumption.follows(name, 0).items() if each.plain is not None}
    contents = {q: store.fetch(one.address, record, whole) for q, record in followed.items()}
    leads = frozenset() if whole else resumption.leads(name, 0)
    one.origin = Origin(
        manifest.checkpoint,
        contents,
        whole and bool(contents),
        resumption.finished(name, 0),
        resumption.parallelism(name),
        resumption.former_shards(name),
        leads,
        {},
    )
    one.apply(OPEN, 0)
    if name == "parquet":
        one.function.publish(manifest.checkpoint)
    one.close()


def read_states(files: World, savepoint: str | None) -> None:
    """Does what `stretto.state.read` does in its tasks."""
    store = CheckpointStore(LocalFiles(str(files.checkpoints)))
    manifest = store.savepoint(savepoint) if savepoint is not None else store.manifests()[0][-1]
    for function in ("kept", "running", "distinct", "windows", "sessions", "top", "join", "collect"):
        wanted = _wanted(str(files.checkpoints), manifest, function, None)
        list(_tables(wanted, range(len(wanted.partitions))))


NAMED = (
    "log/",
    "savepoints/",
    "data/",
    "does not fit app",  # A manifest of another app, as far as anybody can tell.
    "has no function",
    "had finished at checkpoint",
    "has no state",
    "keeps no state",
    "what it remembers cannot be divided",  # A function that remembers something, and has no regroup().
    "cannot seek past its end",  # A position of a source that has fewer rows.
    "sealed output is gone",  # The names are those of files that this sink could have written.
)


@contextmanager
def refused_by_name(files: World) -> Iterator[None]:
    """Expects what is raised to be a StorageError that names a file, and everything outside to be as it was."""
    before = files.outside()
    raised: StorageError | SourceError | None = None
    try:
        yield
    except (StorageError, SourceError) as error:
        raised = error
    assert raised is None or any(each in str(raised) for each in NAMED), raised
    assert files.outside() == before


@given(
    st.data(),
    st.sampled_from([change_manifest, change_piece, change_names]),
    st.sampled_from([None, "saved"]),
    st.booleans(),
)
@settings(max_examples=150)
def test_what_was_changed_is_read_or_refused_by_name(
    data: st.DataObject, change: Any, savepoint: str | None, divided: bool
) -> None:
    with world() as files:
        name = "log/000000003.json" if savepoint is None else "savepoints/saved.json"
        change(data.draw, files, files.checkpoints / name)
        with refused_by_name(files):
            read_states(files, savepoint)
        with refused_by_name(files):
            start(files, savepoint, divided)


def test_what_was_not_changed_is_read() -> None:
    for savepoint, divided in product((None, "saved"), (False, True)):
        with world() as files:
            read_states(files, savepoint)
            start(files, savepoint, divided)
            assert len([name for name in os.listdir(files.output) if name.startswith("part-")]) >= 1
