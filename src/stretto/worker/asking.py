"""The broker of questions, in the driver's own worker (`queries/broker.py`), and who is to hold which copies."""

from __future__ import annotations

from typing import Any, Protocol

from stretto.protocol.membership import MemberRole
from stretto.protocol.queries import Held, PiecesCut, StatePart, TableClosed, TableOpened, Waits
from stretto.protocol.queries import Part as AnswerPart
from stretto.queries.answers import Gathered
from stretto.queries.broker import Broker
from stretto.queries.state_asking import StateBroker, StateGathered
from stretto.worker.events import PassGathered, QuestionAsked, StateAsked
from stretto.worker.part import FrameHandlers, Handlers, Host, Part


class Members(Protocol):
    """Whoever knows the other members."""

    members: dict[str, Any]


class Copies(Protocol):
    """Whoever decides who holds what."""

    def table_known(self) -> None: ...

    def held(self, sender: str, frame: Held) -> None: ...


class Asking(Part):
    """Questions of users. Only the driver's worker has any."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.broker = Broker()
        self._states = StateBroker()

    def connect(self, members: Members, copies: Copies) -> None:
        self._copies = copies
        self._members = members

    def events(self) -> Handlers:
        return {QuestionAsked: self._on_asked, StateAsked: self._on_state_asked}

    def frames(self) -> FrameHandlers:
        broker = self.broker
        return {
            TableOpened: self._on_opened,
            PiecesCut: lambda sender, frame: self._heard(broker.cut, sender, frame),
            TableClosed: lambda sender, frame: self._heard(broker.closed, sender, frame),
            Held: self._on_held,
            AnswerPart: self._on_part,
            Waits: broker.waits,
            StatePart: self._on_state_part,
        }

    def _on_opened(self, sender: str, frame: TableOpened) -> None:
        self.broker.opened(sender, frame)
        if frame.directory is not None:
            self._copies.table_known()
        self.carry_out()

    def _heard(self, handle: Any, sender: str, frame: Any) -> None:
        handle(sender, frame)
        self.carry_out()

    def members_changed(self) -> None:
        """Workers have come or gone."""
        there = [name for name, member in self._members.members.items() if member.role is MemberRole.WORKER]
        self.broker.members(there, self._host.now_ns)
        self._states.members(there, self._host.now_ns)
        self.carry_out()

    def _on_asked(self, event: QuestionAsked) -> None:
        self.broker.ask(event.question, self._host.now_ns)
        self.carry_out()

    def _on_held(self, sender: str, frame: Held) -> None:
        self.broker.held(sender, frame)
        self._copies.held(sender, frame)
        self.carry_out()

    def _on_state_asked(self, event: StateAsked) -> None:
        self._states.ask(event.question, self.broker.workers, self._host.now_ns)
        self.carry_out()

    def _on_part(self, sender: str, frame: AnswerPart) -> None:
        self.broker.answered(sender, frame, self._host.now_ns)
        self.carry_out()

    def _on_state_part(self, sender: str, frame: StatePart) -> None:
        self._states.answered(sender, frame, self._host.now_ns)
        self.carry_out()

    def wake(self) -> None:
        self.broker.tick(self._host.now_ns)
        self._states.tick(self.broker.workers, self._host.now_ns)
        self.carry_out()

    def carry_out(self) -> None:
        """Sends what the brokers want sent, and passes on what they have gathered."""
        sends: list[tuple[str, Any]] = [*self.broker.sends, *self._states.sends]
        self.broker.sends, self._states.sends = [], []
        for member, frame in sends:
            self._host.send(member, frame)
        gathered: list[Gathered | StateGathered] = [*self.broker.gathered, *self._states.gathered]
        self.broker.gathered, self._states.gathered = [], []
        if gathered:
            self._host.effects.append(PassGathered(gathered))
        self.due_ns = min(self.broker.due_ns, self._states.due_ns)
