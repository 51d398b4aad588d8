"""On a transient worker: the twins of instances. A twin has no channels: what it gives goes back to its instance."""

from __future__ import annotations

from typing import Protocol

import msgspec
import pyarrow as pa

from stretto.actors.address import Address
from stretto.actors.batches import unpacked_batch
from stretto.actors.channel import InChannel, Message
from stretto.actors.deadlines import AT_ONCE
from stretto.actors.keyed_twins import GiveKeys, RunTwinSteps, TakeKeys, next_timer_ns
from stretto.actors.reading import StepsOnly
from stretto.actors.seat import Seat
from stretto.actors.twins import GiveBack, RunTwin
from stretto.actors.wiring import wire_lessee
from stretto.actors.work import OPEN, Errand, Outcome
from stretto.protocol.bursts import STEPS, AskBack, GivenBack, Redirected, Returned, StepsSent, TwinBegins
from stretto.protocol.checkpointing import Broken
from stretto.protocol.machines import Send
from stretto.protocol.membership import COORDINATOR
from stretto.rendering import error_text
from stretto.worker.local_job import LocalJob
from stretto.worker.part import AfterRun, FrameHandlers, Host, Part


class Twin:
    """What a transient worker keeps about a twin: whose it is, its inputs, the batches that have not run, and the
    request for its state that waits for them. If it is `keyed`, it runs everything in the order in which it comes."""

    __slots__ = ("asked", "home", "inputs", "keyed", "schemas", "seat", "unrun")

    def __init__(self, home: str, seat: Seat) -> None:
        self.home = home
        self.seat = seat
        self.inputs: dict[str, InChannel] = {}
        self.schemas: dict[str, pa.Schema] = {}
        self.unrun = 0
        self.asked: int | None = None
        self.keyed = False


class Taking(Protocol):
    """Whoever gives new instances their place."""

    def take_in(self, seat: Seat, job: LocalJob) -> None: ...


class Twins(Part):
    """The twins here, by their actors."""

    def __init__(self, host: Host, hosting: Taking) -> None:
        self._host = host
        self._hosting = hosting
        self._twins: dict[Address, Twin] = {}

    def frames(self) -> FrameHandlers:
        return {
            TwinBegins: self._on_begins,
            Redirected: self._on_redirected,
            StepsSent: self._on_steps,
            AskBack: self._on_ask_back,
        }

    def errands(self) -> dict[type[Errand], AfterRun]:
        ran, given_back = AfterRun(completes=self._ran), AfterRun(completes=self._given_back)
        return {RunTwin: ran, RunTwinSteps: ran, GiveBack: given_back, GiveKeys: given_back}

    def _on_begins(self, sender: str, frame: TwinBegins) -> None:
        twin = self._twin(sender, frame.actor, steps_only=False)
        if twin is not None:
            twin.keyed = True
            twin.inputs, twin.schemas = {}, {}
            twin.seat.timers_alarm_ns = 0  # Its timers on the clock fire at home: no alarm of its own is earlier.
            self._run(twin, TakeKeys(frame.states, begins=True))

    def _on_steps(self, sender: str, frame: StepsSent) -> None:
        twin = self._twins.get(frame.actor)
        if twin is None or twin.home != sender:
            self._host.stale += 1
            return
        self._run(twin, RunTwinSteps(frame.number, frame.steps))

    def _run(self, twin: Twin, errand: Errand) -> None:
        """Has a keyed twin run something after all that it has got before."""
        twin.seat.mailbox.append(errand, AT_ONCE)
        self._host.offer(twin.seat)

    def _on_redirected(self, sender: str, frame: Redirected) -> None:
        twin = self._twin(sender, frame.actor, frame.input == STEPS)
        if twin is None:
            return
        if frame.schema is not None:
            twin.schemas[frame.input] = pa.ipc.read_schema(pa.py_buffer(frame.schema))
        if frame.input not in twin.inputs:
            twin.inputs[frame.input] = InChannel(frame.actor, twin.seat, frame.input)
        try:
            batch = unpacked_batch(frame.rows, twin.schemas[frame.input])
        except (KeyError, pa.ArrowException, OSError) as error:
            report_broken(self._host, frame.actor.job, sender, error)
            return
        message = Message(
            twin.inputs[frame.input], frame.number, batch, frame.arrived_ns, None, frame.progress_us, frame.deadline_ns
        )
        twin.seat.instance.at_watermark(frame.watermark_us)
        if twin.keyed:
            self._run(twin, RunTwin(frame.number, message))
            return
        twin.unrun += 1
        urgency = frame.deadline_ns if self._host.policy.by_deadline else 0
        twin.seat.mailbox.append(RunTwin(frame.number, message), urgency)
        self._host.offer(twin.seat)

    def _twin(self, home: str, actor: Address, steps_only: bool) -> Twin | None:
        """The twin of an actor here, made when it is first needed."""
        twin = self._twins.get(actor)
        if twin is not None:
            return twin if twin.home == home else None
        job = self._host.jobs.get(actor.job)
        if job is None or job.deployment is None:
            self._host.stale += 1
            return None
        seat, _ = wire_lessee(actor, self._host.member, job.deployment, job.placement, 0, job.seats)
        seat.gate = None
        if steps_only:
            seat.instance.function = StepsOnly()
        job.lessees[actor] = seat
        self._hosting.take_in(seat, job)
        for out in seat.outs:
            out.strategy = None
        seat.mailbox.append(OPEN)
        self._host.offer(seat)
        twin = self._twins[actor] = Twin(home, seat)
        return twin

    def _ran(self, seat: Seat, errand: RunTwin | RunTwinSteps, outcome: Outcome) -> None:
        twin = self._twins[seat.address]
        cost_ns = int(seat.cost_ns)
        returned = Returned(seat.address, errand.number, outcome.rows_in, errand.returns, cost_ns, errand.counts)
        if twin.keyed:
            returned = msgspec.structs.replace(returned, timer_ns=next_timer_ns(seat.instance))
        self._host.send(twin.home, returned)
        if not twin.keyed:
            twin.unrun -= 1
            self._give_back(twin)

    def _on_ask_back(self, sender: str, frame: AskBack) -> None:
        twin = self._twins.get(frame.actor)
        if twin is None or twin.home != sender:
            self._host.stale += 1
            return
        if twin.keyed:
            self._run(twin, GiveKeys(frame.round, frame.copy))
            return
        twin.asked = frame.round
        self._give_back(twin)

    def _give_back(self, twin: Twin) -> None:
        """Have the state taken out, once nothing that it is asked for has still to run."""
        if twin.asked is not None and not twin.unrun:
            twin.seat.mailbox.append(GiveBack(twin.asked), AT_ONCE)
            twin.asked = None
            self._host.offer(twin.seat)

    def _given_back(self, seat: Seat, errand: GiveBack | GiveKeys, outcome: Outcome) -> None:
        copied = isinstance(errand, GiveKeys) and errand.copy
        self._host.send(self._twins[seat.address].home, GivenBack(seat.address, errand.round, outcome.states, copied))

    def dropped(self, job: LocalJob) -> None:
        self._twins = {actor: twin for actor, twin in self._twins.items() if actor.job != job.job}


def report_broken(host: Host, job: str, member: str, error: Exception) -> None:
    """Another member has sent what cannot be read. What it had is unknown now, so the job resumes from a checkpoint."""
    reason = f"rows that cannot be read: {error_text(error)}"
    host.refuse(f"{reason}, from {member}")
    host.effects.append(Send(COORDINATOR, Broken(job, member, reason)))
