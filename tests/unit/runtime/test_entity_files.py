"""The log and the snapshots of entities as files: what an attempt finds of those before it, and who is fenced off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stretto.errors import DamagedError, StorageError, TakenOverError
from stretto.protocol.transactions import Piece
from stretto.runtime.entities.log_files import AppendableFiles, check_directory
from stretto.transactions import place_log
from stretto.transactions.place_log import PlaceLog

Place = Callable[[Path], PlaceLog]


@pytest.fixture
def place() -> Iterator[Place]:
    """Makes the files of place 1 below a directory, as another process would have them."""
    made: list[PlaceLog] = []

    def make(directory: Path) -> PlaceLog:
        made.append(PlaceLog(AppendableFiles(str(directory)), 1))
        return made[-1]

    yield make
    for files in made:
        files.close()


def appended(files: PlaceLog, attempt: int, begin: int, data: bytes) -> None:
    files.append(attempt, data, begin + len(data))
    files.sync()


def test_the_next_attempt_reads_what_the_one_before_has_appended(place: Place, tmp_path: Path) -> None:
    first = place(tmp_path)
    assert first.open(5) == (b"", 0)
    appended(first, 5, 0, b"one")
    appended(first, 5, 3, b"two")
    assert place(tmp_path).open(6) == (b"onetwo", 0)


def test_what_a_later_attempt_appends_replaces_a_torn_tail(place: Place, tmp_path: Path) -> None:
    first = place(tmp_path)
    first.open(5)
    appended(first, 5, 0, b"one-to")
    second = place(tmp_path)
    assert second.open(6) == (b"one-to", 0)
    appended(second, 6, 4, b"two")  # It has cut the tail at 4.
    assert place(tmp_path).open(7) == (b"one-two", 0)


def test_a_writer_whose_place_was_claimed_says_of_nothing_that_it_is_durable(place: Place, tmp_path: Path) -> None:
    first = place(tmp_path)
    first.open(5)
    appended(first, 5, 0, b"one")
    second = place(tmp_path)
    second.open(6)
    first.append(5, b"late", 7)
    with pytest.raises(TakenOverError, match="another attempt has taken over"):
        first.sync()
    appended(second, 6, 3, b"two")
    # What came late is behind what the later attempt has appended, or where it began.
    assert place(tmp_path).open(7) == (b"onetwo", 0)


def test_an_attempt_that_comes_after_a_later_one_gets_nothing(place: Place, tmp_path: Path) -> None:
    place(tmp_path).open(6)
    with pytest.raises(TakenOverError):
        place(tmp_path).open(5)


def test_files_before_a_position_are_removed(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place_log, "SEGMENT_BYTES", 10)
    files = place(tmp_path)
    files.open(5)
    for number in range(6):
        appended(files, 5, 8 * number, b"%08d" % number)
    files.trim(20)
    data, position = place(tmp_path).open(6)
    assert position == 16
    assert data == b"000000020000000300000004" + b"00000005"


def test_a_log_with_a_gap_is_damaged(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place_log, "SEGMENT_BYTES", 10)
    files = place(tmp_path)
    files.open(5)
    for number in range(3):
        appended(files, 5, 8 * number, b"%08d" % number)
    (tmp_path / "entities/1/log/8-5").unlink()
    with pytest.raises(DamagedError, match="a part of the ingress log is missing"):
        place(tmp_path).open(6)


def test_a_log_that_cannot_be_written_is_an_error(place: Place, tmp_path: Path) -> None:
    files = place(tmp_path)
    files.open(5)
    (tmp_path / "entities/1/log").write_text("not a directory")
    with pytest.raises(StorageError, match="cannot write"):
        files.append(5, b"one", 3)


def test_a_piece_is_there_until_it_is_dropped_and_damage_is_found(place: Place, tmp_path: Path) -> None:
    files = place(tmp_path)
    pieces = [Piece(5, 1), Piece(5, 20), Piece(6, 3)]
    for piece in pieces:
        files.store(piece, b"content of %d" % piece.epoch)
    assert [files.fetch(piece) for piece in pieces] == [b"content of 1", b"content of 20", b"content of 3"]
    files.drop(Piece(5, 20))
    with pytest.raises(DamagedError, match="there is no such file"):
        files.fetch(pieces[0])
    stored = tmp_path / "entities/1/pieces/6-3"
    stored.write_bytes(stored.read_bytes()[:-1] + b"!")
    with pytest.raises(DamagedError, match="its checksum does not match"):
        files.fetch(pieces[2])
    assert files.fetch(pieces[1]) == b"content of 20"


def test_a_link_out_of_the_directory_is_not_followed(place: Place, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "kept/entities").mkdir(parents=True)
    (tmp_path / "kept/entities/1").symlink_to(outside)
    with pytest.raises(DamagedError, match="links lead to"):
        place(tmp_path / "kept").open(1)
    assert not list(outside.iterdir())


def test_only_a_file_system_can_be_appended_to(tmp_path: Path) -> None:
    check_directory(str(tmp_path))
    check_directory(f"file://{tmp_path}")
    with pytest.raises(StorageError, match="their log is appended to"):
        check_directory("s3://bucket/bank")
