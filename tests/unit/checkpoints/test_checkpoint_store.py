"""The checkpoint store: stored snapshots are read back, damage is noticed, files not needed are removed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import obstore
import pyarrow as pa
import pytest
from obstore.store import LocalStore, MemoryStore

from stretto.actors.address import Address
from stretto.actors.shape import FunctionShape
from stretto.actors.shards import ShardMap
from stretto.actors.snapshot import Plain, Snapshot
from stretto.checkpoints.manifest import ActorRecord, Manifest, Piece, decoded, digest_of, encoded
from stretto.checkpoints.store import CheckpointStore, Files
from stretto.errors import DamagedError, StorageError
from stretto.runtime.object_store import create, s3_store
from stretto.runtime.storage import LocalFiles
from stretto.simulator.engine.storage import SimulatedFiles
from stretto.state import Fragment
from stretto.state.packing import packed

ADDRESS = Address("app", "count", 0)
REMEMBERED = [1, ("a", 2)]


def snapshot(checkpoint: int, **fragments: list[Fragment]) -> Snapshot:
    plain = Plain(0, [], {"event": [], "processing": []}, {}, None, REMEMBERED, {name: {} for name in fragments})
    return Snapshot(checkpoint, packed(msgspec.structs.asdict(plain)), fragments)


def manifest(checkpoint: int, record: ActorRecord, savepoint: str | None = None) -> Manifest:
    return Manifest("app", checkpoint, {"count": [record]}, savepoint, shapes={"count": FunctionShape("count", 1)})


def owned(files: Files) -> CheckpointStore:
    store = CheckpointStore(files)
    store.claim()
    return store


def test_a_stored_snapshot_is_read_back(files: Files) -> None:
    table = pa.table({"k": [1, 2], "v": ["x", None]})
    store = CheckpointStore(files, 1)
    record = store.store(ADDRESS, snapshot(1, state=[Fragment(1, table), Fragment(2, packed([1, 2]))]))
    content = CheckpointStore(files, 2).fetch(ADDRESS, record)
    assert content.plain.remembered == REMEMBERED
    assert content.fragments["state"] == [Fragment(1, table), Fragment(2, packed([1, 2]))]


def test_a_fragment_is_written_once(files: Files) -> None:
    store = CheckpointStore(files, 1)
    large = Fragment(1, pa.table({"k": list(range(10_000))}))
    first = store.store(ADDRESS, snapshot(1, state=[large]))
    second = store.store(ADDRESS, snapshot(2, state=[large, Fragment(2, packed(1))]))
    assert second.states["state"][0] == first.states["state"][0]
    assert len(files.read(second.plain.path)) < 5_000  # type: ignore[union-attr]
    # Nor is it written again after a failure, by a store that has read it.
    other = CheckpointStore(files, 2)
    other.fetch(ADDRESS, second)
    third = other.store(ADDRESS, snapshot(3, state=[large, Fragment(2, packed(1))]))
    assert third.states == second.states


def test_an_object_is_created_once() -> None:
    store = MemoryStore()
    assert create(store, "log/000000001.json", b"one")
    assert not create(store, "log/000000001.json", b"other")
    assert bytes(obstore.get(store, "log/000000001.json").bytes()) == b"one"
    assert create(store, "log/000000002.json", b"other")


def test_a_store_that_refuses_is_named(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a file where a directory should be")
    with pytest.raises(StorageError, match="cannot create s3://bucket/app/log/000000001"):
        create(LocalStore(tmp_path), "log/000000001.json", b"", "s3://bucket/app")


def test_the_store_is_opened_at_the_place_of_the_uri() -> None:
    uri = "s3://key:se%2Fcret@bucket/app/a?scheme=http&endpoint_override=localhost:9000&region=eu-west-1"
    opened = s3_store(uri, "eu-west-1", "bucket/app/a")
    assert (opened.prefix, opened.config["bucket"]) == ("app/a", "bucket")
    assert opened.config["endpoint"] == "http://localhost:9000"
    assert (opened.config["access_key_id"], opened.config["secret_access_key"]) == ("key", "se/cret")
    assert opened.config["region"] == "eu-west-1"


def test_the_last_manifest_comes_last_and_old_ones_are_removed(files: Files) -> None:
    store = owned(files)
    kept = []
    for checkpoint in range(1, 6):
        kept.append(manifest(checkpoint, store.store(ADDRESS, snapshot(checkpoint))))
        store.commit(kept[-1])
    store.prune(kept[-2:])
    found, wrong = CheckpointStore(files, 2).manifests()
    assert [each.checkpoint for each in found] == [4, 5]
    assert not wrong
    assert {f"data/{name}" for name in files.names("data")} == found[0].files() | found[1].files()


def test_files_of_earlier_owners_are_removed(files: Files) -> None:
    store = owned(files)
    kept = manifest(1, store.store(ADDRESS, snapshot(1)))
    store.commit(kept)
    store.store(ADDRESS, snapshot(2))
    later = owned(files)
    own = later.store(ADDRESS, snapshot(3))
    later.sweep([kept])
    assert own.plain is not None
    assert {f"data/{name}" for name in files.names("data")} == kept.files() | {own.plain.path}


def test_a_checkpoint_that_the_app_goes_back_to_is_the_last(files: Files) -> None:
    store = owned(files)
    taken = [manifest(number, store.store(ADDRESS, snapshot(number))) for number in (1, 2, 3)]
    for each in taken:
        store.commit(each)
    store.go_back(taken[:2])
    found, _ = CheckpointStore(files).manifests()
    assert [each.checkpoint for each in found] == [1, 2]
    assert {f"data/{name}" for name in files.names("data")} == taken[0].files() | taken[1].files()


def test_going_back_counts_before_later_checkpoints_are_removed(files: Files) -> None:
    store = owned(files)
    for number in (1, 2, 3, 1):
        store.commit(manifest(number, ActorRecord(finished=True)))
    assert [each.checkpoint for each in store.manifests()[0]] == [1]


def test_only_what_is_new_counts_as_written(files: Files) -> None:
    store = CheckpointStore(files, 2)
    large = Fragment(1, pa.table({"k": list(range(1_000))}))
    store.store(ADDRESS, snapshot(1, state=[large]))
    second = manifest(2, store.store(ADDRESS, snapshot(2, state=[large])))
    assert 0 < second.bytes_written < 2_000 < second.bytes


def test_every_flipped_bit_and_every_cut_is_noticed() -> None:
    files = SimulatedFiles()
    store = CheckpointStore(files, 1)
    record = store.store(ADDRESS, snapshot(1, state=[Fragment(1, pa.table({"k": [1]}))]))
    assert record.plain is not None
    path = record.plain.path
    whole = files.contents[path]
    for place in range(len(whole)):
        files.contents[path] = whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :]
        with pytest.raises(DamagedError, match="damaged"):
            store.fetch(ADDRESS, record)
        files.contents[path] = whole[:place]
        with pytest.raises(DamagedError, match="damaged"):
            store.fetch(ADDRESS, record)


def test_a_damaged_manifest_is_reported_and_skipped() -> None:
    files = SimulatedFiles()
    store = owned(files)
    for checkpoint in (1, 2):
        store.commit(manifest(checkpoint, store.store(ADDRESS, snapshot(checkpoint))))
    last = max(name for name in files.contents if name.startswith("log/"))
    whole = files.contents[last]
    for place in range(0, len(whole), 7):
        files.contents[last] = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        found, wrong = store.manifests()
        assert [each.checkpoint for each in found] == [1]
        assert len(wrong) == 1


def test_a_manifest_of_another_version_is_refused() -> None:
    with pytest.raises(DamagedError, match="another version"):
        decoded(encoded(msgspec.structs.replace(manifest(1, ActorRecord()), version=99)), "m")


def test_a_full_disk_is_reported() -> None:
    files = SimulatedFiles()
    files.full = True
    with pytest.raises(StorageError, match="no space"):
        CheckpointStore(files, 1).store(ADDRESS, snapshot(1))


def test_a_directory_that_cannot_be_made_is_reported(tmp_path: object) -> None:
    blocked = f"{tmp_path}/file"
    open(blocked, "w").close()
    with pytest.raises(StorageError, match="cannot write"):
        LocalFiles(f"{blocked}/below").write("a/b", [b"x"])


def test_names_that_look_alike_do_not_share_a_file(files: Files) -> None:
    store = CheckpointStore(files, 1)
    paths = [
        store.store(Address("app", name, 0), snapshot(1)).plain.path  # type: ignore[union-attr]
        for name in ("a b", "a_b", "a.b", "a-b")
    ]
    assert len(set(paths)) == 4


# What is damaged and not asked for, and what is not ours.


def flip(files: SimulatedFiles, path: str) -> None:
    content = files.contents[path]
    files.contents[path] = content[:30] + bytes([content[30] ^ 1]) + content[31:]


def data_of(files: Files) -> set[str]:
    return {f"data/{name}" for name in files.names("data")}


def test_a_damaged_savepoint_is_reported_and_the_files_that_it_may_need_stay() -> None:
    files = SimulatedFiles()
    first = owned(files)
    saved = manifest(1, first.store(ADDRESS, snapshot(1)), "before")
    first.commit(saved)
    first.save(saved)
    unsaved = first.store(ADDRESS, snapshot(2))
    flip(files, "savepoints/before.json")
    second = owned(files)
    kept = manifest(3, second.store(ADDRESS, snapshot(3)))
    (wrong,) = second.sweep([kept])
    assert "savepoints/before.json is damaged" in wrong
    assert unsaved.plain is not None
    assert data_of(files) == saved.files() | {unsaved.plain.path} | kept.files()
    # What this owner has written cannot be in it, so storage does not grow for ever.
    second.commit(kept)
    last = manifest(4, second.store(ADDRESS, snapshot(4)))
    second.commit(last)
    second.prune([last])
    assert data_of(files) == saved.files() | {unsaved.plain.path} | last.files()


def test_a_savepoint_that_is_damaged_later_keeps_its_files() -> None:
    files = SimulatedFiles()
    store = owned(files)
    saved = manifest(1, store.store(ADDRESS, snapshot(1)), "before")
    store.commit(saved)
    store.save(saved)
    other = manifest(2, store.store(ADDRESS, snapshot(2)))
    last = manifest(3, store.store(ADDRESS, snapshot(3)))
    for each in (other, last):
        store.commit(each)
    flip(files, "savepoints/before.json")
    store.prune([last])
    assert data_of(files) == saved.files() | last.files()


class Unreadable(SimulatedFiles):
    """Files of which some cannot be reached."""

    def __init__(self, *paths: str) -> None:
        super().__init__()
        self.unreachable = paths

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        if path in self.unreachable:
            raise StorageError(f"cannot read {path}", "input/output error")
        return super().read(path, offset, length)


@pytest.mark.parametrize(("checkpoint", "found"), [(1, [2]), (2, None)])
def test_only_the_latest_checkpoint_has_to_be_reachable(checkpoint: int, found: list[int] | None) -> None:
    files = Unreadable(f"log/{checkpoint + 1:09d}.json")
    store = owned(files)
    for number in (1, 2):
        store.commit(manifest(number, store.store(ADDRESS, snapshot(number))))
    if found is None:
        with pytest.raises(StorageError, match="input/output error"):
            store.manifests()
    else:
        manifests, wrong = store.manifests()
        assert [each.checkpoint for each in manifests] == found
        assert not wrong


def test_files_of_strangers_are_no_obstacle_and_stay(files: Files) -> None:
    strangers = [
        "data/notes.txt",
        "data/000001/app/000001/notes.txt",
        "savepoints/README",
        "log/list",
        "data/x/y",
    ]
    store = owned(files)
    kept = manifest(1, store.store(ADDRESS, snapshot(1)))
    store.commit(kept)
    for path in [*strangers, "lineage/.hidden"]:
        files.write(path, [b"mine"])
    later = CheckpointStore(files)
    later.claim()
    assert later.manifests() == ([msgspec.structs.replace(kept, owner=1)], [])
    assert later.sweep([kept]) == []
    assert later.lineage("00abcdef") == "00abcdef"
    assert [files.read(path) for path in strangers] == [b"mine"] * len(strangers)


@pytest.mark.parametrize("name", ["_before", "été", "before"])
def test_a_savepoint_of_any_name_is_found_and_keeps_its_files(files: Files, name: str) -> None:
    store = owned(files)
    saved = manifest(1, store.store(Address("app", "_count", 0), snapshot(1)), name)
    store.commit(saved)
    store.save(saved)
    store.commit(manifest(2, store.store(ADDRESS, snapshot(2))))
    last = manifest(3, store.store(ADDRESS, snapshot(3)))
    store.commit(last)
    store.prune([last])
    later = CheckpointStore(files, 2)
    assert later.sweep([last]) == []
    assert later.savepoint(name) == saved
    assert data_of(files) == saved.files() | last.files()


# What somebody has changed, with its checksums.


def piece(path: str) -> Piece:
    return Piece(path, 0, 1, "")


@pytest.mark.parametrize(
    "path",
    [
        "data/../../outside.arrow",
        "/etc/passwd",
        "data/000001/../000001/x.arrow",
        "data/000001/app/000001/..",
        "savepoints/before.json",
        "log/000000001.json",
        "data/000001/app/000001/x\0.arrow",
        "",
        "data/000001/app/000009/x.arrow",  # Of a checkpoint that is perhaps being written.
    ],
)
def test_a_manifest_names_only_snapshots_that_it_can_have(path: str) -> None:
    changed = manifest(2, ActorRecord(piece(path)))
    with pytest.raises(DamagedError) as refused:
        decoded(encoded(changed), "log/m.json")
    assert str(refused.value).startswith("the manifest log/m.json cannot be used: it names ")
    assert repr(path) in str(refused.value)


GOOD = ActorRecord(piece("data/000001/app/000001/count-0.arrow"))


@pytest.mark.parametrize(
    "changed",
    [
        manifest(-1, GOOD),
        manifest(10**12, GOOD),
        msgspec.structs.replace(manifest(1, GOOD), shapes={}),
        msgspec.structs.replace(manifest(1, GOOD), functions={"count": []}),
        msgspec.structs.replace(manifest(1, GOOD), shapes={"count": FunctionShape("count", 1, splits=10**15)}),
        msgspec.structs.replace(
            manifest(1, GOOD), shapes={"count": FunctionShape("count", 1, shards=ShardMap(1, b"\1" * 256))}
        ),
        msgspec.structs.replace(
            manifest(1, GOOD), shapes={"count": FunctionShape("count", 1, shards=ShardMap(1, b""))}
        ),
        manifest(1, ActorRecord()),
        manifest(1, msgspec.structs.replace(GOOD, watermark_us=2**63)),
        manifest(1, ActorRecord(msgspec.structs.replace(piece("data/000001/app/000001/count-0.arrow"), offset=-1))),
    ],
)
def test_a_manifest_that_cannot_be_used_is_refused(changed: Manifest) -> None:
    with pytest.raises(DamagedError, match=r"the manifest log/m\.json cannot be "):
        decoded(encoded(changed), "log/m.json")
    assert decoded(encoded(manifest(1, GOOD)), "m") == manifest(1, GOOD)


@pytest.mark.parametrize("text", [b"[1]", b"{}", b"null", b'{"version": 2}', b"[" * 100_000])
def test_a_manifest_that_is_something_else_is_refused(text: bytes) -> None:
    sealed = b'{"digest": "%s", "manifest": %s}' % (digest_of(text).encode(), text)
    with pytest.raises(DamagedError, match="the manifest m "):
        decoded(sealed, "m")


@pytest.mark.parametrize("changed", [b"junk", packed([]), packed({}), packed({"watermark_us": "late"})])
def test_a_snapshot_of_another_shape_is_named(changed: bytes) -> None:
    files = SimulatedFiles()
    record = CheckpointStore(files, 1).store(ADDRESS, Snapshot(1, changed))
    assert record.plain is not None
    with pytest.raises(DamagedError, match=f"the checkpoint file {record.plain.path} does not hold a snapshot"):
        CheckpointStore(files, 2).fetch(ADDRESS, record)


def test_a_state_that_is_missing_in_the_manifest_is_noticed() -> None:
    files = SimulatedFiles()
    record = CheckpointStore(files, 1).store(ADDRESS, snapshot(1, state=[Fragment(1, packed(1))]))
    with pytest.raises(DamagedError, match="is of other states than its manifest: the manifest has none"):
        CheckpointStore(files, 2).fetch(ADDRESS, msgspec.structs.replace(record, states={}))


def test_a_length_that_nobody_wrote_is_not_allocated(files: Files) -> None:
    files.write("data/x", [b"short"])
    assert files.read("data/x", 2, 1 << 61) == b"ort"
    assert files.read("data/x", 1 << 61, 1 << 61) == b""


def test_a_manifest_whose_shapes_know_no_lessees_can_be_read() -> None:
    written = manifest(1, GOOD)
    plain = msgspec.to_builtins(written)
    del plain["shapes"]["count"]["lessees_max"]
    text = msgspec.json.encode(plain)
    sealed = msgspec.json.encode({"digest": digest_of(text), "manifest": msgspec.Raw(text)})
    assert decoded(sealed, "old") == written
