"""Reads pieces of published tables in another thread; the rows come back as an event for the machine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from stretto.queries.shelf import LoadPieces, PiecesLoaded
from stretto.rendering import error_text
from stretto.runtime.event_pipe import EventPipe
from stretto.runtime.published_files import read_piece


class PieceIO:
    """One thread. `fd` is readable when there are `events`."""

    def __init__(self) -> None:
        self._pipe: EventPipe[PiecesLoaded] = EventPipe()
        self.fd = self._pipe.fd
        self.events = self._pipe.events
        self._pool: ThreadPoolExecutor | None = None

    def begin(self, effect: LoadPieces) -> None:
        """Starts to read; the rows will be in `events`."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="stretto-pieces")
        self._pool.submit(self._do, effect)

    def close(self) -> None:
        """Cancels what is still to be read, which nobody waits for any more."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._pipe.close()

    def _do(self, effect: LoadPieces) -> None:
        found: dict[str, list[pa.RecordBatch]] = {}
        failed, reason = [], None
        for piece in effect.pieces:
            try:
                found[piece.name] = read_piece(effect.directory, piece.files)
            except Exception as error:  # A file that is gone or damaged: whoever asked hears of it.
                failed.append(piece.name)
                reason = reason or f"segment {piece.name} cannot be read: {error_text(error)}"
        self._pipe.put(PiecesLoaded(effect.table, found, tuple(failed), reason))
