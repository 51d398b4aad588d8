"""Actors resume from a checkpoint: which snapshots they need, and who had finished before.

Who follows whom is worked out from the manifest and the dataflow's shape (`checkpoints/resuming.py`); what an instance
does with the snapshots is its own (`actors/resuming.py`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from stretto.actors.calling import CALL_AGAIN
from stretto.actors.seat import Phase, Seat
from stretto.actors.shape import shapes_of
from stretto.actors.snapshot import Origin
from stretto.actors.work import END
from stretto.checkpoints.resuming import Resumption
from stretto.protocol.checkpointing import Unfetched
from stretto.protocol.machines import Send
from stretto.protocol.membership import COORDINATOR
from stretto.worker.events import Fetched, FetchFailed, FetchSnapshots, Wanted
from stretto.worker.local_job import LocalJob
from stretto.worker.part import Handlers, Host, Part


class Opening(Protocol):
    """Whoever opens the actors of a job."""

    def open(self, job: LocalJob) -> None: ...


class Resuming(Part):
    """The jobs here that resume from a checkpoint."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def connect(self, jobs: Opening) -> None:
        self._jobs = jobs

    def events(self) -> Handlers:
        return {Fetched: self._on_fetched, FetchFailed: self._on_fetch_failed}

    def fetch(self, job: LocalJob) -> None:
        """Have the snapshots read that the actors here resume from. Those that had finished need none, but for
        sinks."""
        assert job.origin is not None
        assert job.deployment is not None
        assert job.storage is not None
        job.checkpoint = job.origin.checkpoint
        resumption = Resumption(job.origin, shapes_of(job.deployment))
        wanted = {}
        for address, seat in job.seats.items():
            seat.marked = job.checkpoint
            if resumption.finished(*address[1:]) and not seat.instance.is_sink:
                seat.phase = Phase.FINISHED
                continue
            if seat.instance.is_source:
                seat.instance.read_splits(resumption.splits(address.function))
            wanted[address] = self._wanted(seat, resumption, job.checkpoint)
        self._host.effects.append(FetchSnapshots(job.storage, job.job, wanted))

    def _wanted(self, seat: Seat, resumption: Resumption, checkpoint: int) -> Wanted:
        followed = resumption.follows(*seat.address[1:])
        records = {former: record for former, record in followed.items() if record.plain is not None}
        seat.instance.origin = origin_of(seat, resumption, checkpoint, bool(records))
        return Wanted(records, seat.instance.origin.whole)

    def _on_fetched(self, event: Fetched) -> None:
        job = self._host.jobs.get(event.job)
        if job is None:
            return  # It was stopped in the meantime.
        for address, contents in event.contents.items():
            seat = job.seats[address]
            assert seat.instance.origin is not None
            seat.instance.origin = replace(seat.instance.origin, contents=contents)
        self._jobs.open(job)

    def start(self, job: LocalJob) -> None:
        """All are ready. An actor that will get nothing more comes to its end."""
        resumes = job.origin is not None or job.follows is not None
        for seat in job.seats.values() if resumes else ():
            if seat.phase is Phase.OPEN and seat.instance.calls:
                seat.mailbox.append(CALL_AGAIN)
                self._host.offer(seat)
            if seat.phase is Phase.OPEN and seat.instance.inputs_ended:
                seat.mailbox.append(END)
                self._host.offer(seat)

    def _on_fetch_failed(self, event: FetchFailed) -> None:
        job = self._host.jobs.get(event.job)
        if job is not None:
            assert job.origin is not None
            unfetched = Unfetched(event.job, job.origin.checkpoint, event.reason, event.damaged)
            self._host.effects.append(Send(COORDINATOR, unfetched))


def origin_of(seat: Seat, resumption: Resumption, checkpoint: int, has_content: bool) -> Origin:
    """Returns what an actor resumes from, without the contents. It is whole only if there is any."""
    actor = seat.address[1:]
    function = seat.address.function
    whole = resumption.is_whole(function) and has_content
    return Origin(
        checkpoint,
        {},
        whole,
        resumption.finished(*actor),
        resumption.parallelism(function),
        resumption.former_shards(function),
        frozenset() if whole else resumption.leads(*actor),
        None if resumption.is_same else resumption.channels(*actor),
    )
