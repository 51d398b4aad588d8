"""The doors of jobs with entities: calls of users go out from the driver's own worker, and answers come back to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from stretto.actors.deadlines import NEVER_NS
from stretto.protocol.entities import CallsSent, RepliesSent
from stretto.protocol.machines import FrameArrived, Send, Ticked
from stretto.protocol.transactions import Call, Fetch, Look, Reply, Settle
from stretto.transactions.door import Door
from stretto.transactions.events import Answer
from stretto.transactions.placement import place_names
from stretto.worker.events import CallsMade, DoorMoved, DoorOpened, DoorShut, PassAnswers
from stretto.worker.part import FrameHandlers, Handlers, Host, Part

AGAIN_NS = 200_000_000
AGAIN_NS_MAX = 2_000_000_000
"""How long a call waits for its reply before it is sent again, the first time and at most. Connections lose nothing
while all members are there."""
SENT_BYTES_MAX = 8 << 20
SENT_MAX = 2_000
"""The most calls, and bytes of their arguments, in one frame."""


@dataclass
class _Opened:
    door: Door
    members: list[str] = field(default_factory=list)
    """By the places of the job."""
    tickets: dict[int, Any] = field(default_factory=dict)


class Doors(Part):
    """The doors here, by job. Only the driver's worker has any."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._opened: dict[str, _Opened] = {}

    def events(self) -> Handlers:
        return {
            DoorOpened: self._on_opened,
            DoorMoved: self._on_moved,
            CallsMade: self._on_calls,
            DoorShut: self._on_shut,
        }

    def frames(self) -> FrameHandlers:
        return {RepliesSent: self._on_replies}

    def _on_opened(self, event: DoorOpened) -> None:
        self._opened[event.job] = _Opened(Door(event.client, event.catalog, [], AGAIN_NS, AGAIN_NS_MAX))

    def _on_shut(self, event: DoorShut) -> None:
        self._opened.pop(event.job, None)
        self._set_alarm()

    def _on_moved(self, event: DoorMoved) -> None:
        opened = self._opened.get(event.job)
        if opened is None:
            return
        opened.members = list(event.members)
        if event.again:
            self._send(event.job, opened.door.move(place_names(len(event.members)), self._host.now_ns))

    def _on_calls(self, event: CallsMade) -> None:
        opened = self._opened.get(event.job)
        if opened is None:
            return  # It has ended, and with it all calls.
        found: list[Send] = []
        for made, ticket in event.calls:
            number, sends = opened.door.call(made, self._host.now_ns)
            opened.tickets[number] = ticket
            found += sends
        self._send(event.job, found)

    def _on_replies(self, sender: str, frame: RepliesSent) -> None:
        opened = self._opened.get(frame.job)
        if opened is None:
            return
        answers: list[tuple[Any, Reply]] = []
        for reply in frame.replies:
            for effect in opened.door.handle(FrameArrived(sender, reply), self._host.now_ns):
                if isinstance(effect, Answer):
                    answers.append((opened.tickets.pop(reply.number), reply))
        self._host.effects.append(PassAnswers(frame.job, answers))
        self._set_alarm()

    def wake(self) -> None:
        for job, opened in self._opened.items():
            due = opened.door.handle(Ticked(), self._host.now_ns)
            self._send(job, [effect for effect in due if isinstance(effect, Send)])

    def _send(self, job: str, sends: Iterable[Send]) -> None:
        opened = self._opened.get(job)
        for member, frame in in_frames(job, sends, opened.members if opened is not None else []):
            self._host.send(member, frame)
        self._set_alarm()

    def _set_alarm(self) -> None:
        due = (opened.door.next_deadline() for opened in self._opened.values())
        self.due_ns = min((each for each in due if each is not None), default=NEVER_NS)


def in_frames(job: str, sends: Iterable[Send], members: Sequence[str]) -> Iterator[tuple[str, CallsSent]]:
    """Yields calls with their receivers, those to one place in as few frames as may be. `members` are the workers in
    the places; those that get calls are names of places."""
    batches: dict[str, list[Call | Look | Settle | Fetch]] = {}
    bytes_of: dict[str, int] = {}
    for send in sends:
        batch = batches.setdefault(send.to, [])
        size = bytes_of.get(send.to, 0)
        if not isinstance(send.frame, Settle):
            size += len(send.frame.request.arguments)
        bytes_of[send.to] = size
        batch.append(send.frame)
        if size >= SENT_BYTES_MAX or len(batch) >= SENT_MAX:
            yield _addressed(job, send.to, batches.pop(send.to), members)
            del bytes_of[send.to]
    for place, batch in batches.items():
        yield _addressed(job, place, batch, members)


def _addressed(
    job: str, place: str, calls: list[Call | Look | Settle | Fetch], members: Sequence[str]
) -> tuple[str, CallsSent]:
    number = int(place)
    return members[number - 1], CallsSent(job, number, calls)
