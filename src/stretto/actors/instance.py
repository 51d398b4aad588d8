"""One actor at work: what an instance does with one piece of work, and what it wants to send.

`apply` runs the function on the caller's time and returns an Outcome; it moves no message and spends no credit. The
worker machine does that afterwards, so the same code runs under a real clock and in virtual time.
"""

from __future__ import annotations

import copy
import heapq
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stretto.actors import resuming
from stretto.actors.address import Address, Attempt, job_of
from stretto.actors.channel import InChannel, Message, OutChannel, Payload
from stretto.actors.context import Clock, Context
from stretto.actors.critical import END_OF_INPUT, EndOfInput, Mark, UserCritical, Watermark
from stretto.actors.deadlines import ProgressMap
from stretto.actors.deployment import FunctionSpec
from stretto.actors.function import EVENT_TIME_MAX_US, EVENT_TIME_MIN_US
from stretto.actors.gate import LesseeGate, LessorGate
from stretto.actors.mailbox import Mailbox
from stretto.actors.metrics import FunctionMetrics, LatencySketch
from stretto.actors.routing import BoundStage, Sends
from stretto.actors.snapshot import Origin, Snapshot
from stretto.actors.source import Reading
from stretto.errors import FunctionError, InvariantError
from stretto.state import State
from stretto.state.cold import Cold
from stretto.state.packing import packed, unpacked

if TYPE_CHECKING:
    from stretto.scheduling.strategy import Strategy


class Phase(Enum):
    """An instance's life; the worker moves it along in this order."""

    OPENING = "opening"
    OPEN = "open"
    FINISHED = "finished"


class Errand(Enum):
    """Work that is not a message: it has no channel and no sequence number."""

    OPEN = "open"
    POLL = "poll"
    TIMERS = "timers"
    END = "end"
    """All inputs had ended in the checkpoint that it goes on from."""
    SURRENDER = "surrender"
    """A lessee's part of a barrier: give the partial state away."""


class Barrier:
    """A barrier's critical part as one run of the lessor: take the partial states in, run the critical messages."""

    __slots__ = ("messages", "parts")

    def __init__(self, messages: list[Message], parts: list[bytes]) -> None:
        self.messages = messages
        self.parts = parts


class Adoption:
    """A lessee gets the consolidated state, to read from until the next barrier."""

    __slots__ = ("states",)

    def __init__(self, states: bytes) -> None:
        self.states = states


class Marking:
    """A source comes to the mark of a checkpoint, or a sink that has finished has its part in it."""

    __slots__ = ("checkpoint",)

    def __init__(self, checkpoint: int) -> None:
        self.checkpoint = checkpoint


class Publishing:
    """A sink lets go what it has sealed up to a checkpoint."""

    __slots__ = ("checkpoint",)

    def __init__(self, checkpoint: int) -> None:
        self.checkpoint = checkpoint


Work = Message | Errand | Barrier | Adoption | Marking | Publishing


class NextRead:
    """What a source would read next, as urgent as the message that it would become."""

    __slots__ = ("deadline_ns",)

    def __init__(self, deadline_ns: int) -> None:
        self.deadline_ns = deadline_ns


class Outcome:
    """What one run gave: payloads per channel in order, and what the worker must know to go on.

    A source says in `next_ns` when its next row is due, and in `gather_until_ns` how long it may wait for more.
    `states` is what a lessee surrendered, or what a lessor shares. `progress_us` is how far the stream has come with
    what was sent, None where nobody can tell. `snapshot` is there when the run came to the mark of a checkpoint."""

    __slots__ = (
        "arrived_ns",
        "finished",
        "gather_until_ns",
        "next_ns",
        "progress_us",
        "rows_in",
        "sends",
        "snapshot",
        "states",
    )

    def __init__(self, arrived_ns: int) -> None:
        self.sends: Sends = []
        self.arrived_ns = arrived_ns
        self.progress_us: int | None = None
        self.rows_in = 0
        self.finished = False
        self.next_ns: int | None = None
        self.gather_until_ns = 0
        self.states: bytes | None = None
        self.snapshot: Snapshot | None = None


class Instance:
    """An instance of an actor: its function, its mailbox, its channels, its timers.

    `gate` is there when the actor may have lessees, or hears from lessees of others; else nothing needs to be held.
    `starved` counts the reasons why it may not run: channels without credits or that wait to hear of lessees, too many
    batches that are `undecided` about where to go, or a run that is `interrupted` until they are decided."""

    def __init__(self, address: Address, spec: FunctionSpec, is_source: bool, is_sink: bool) -> None:
        self.address = address
        self.spec = spec
        self.function: Any = copy.deepcopy(spec.function)
        self.function.bind_states()
        self.is_source = is_source
        self.is_sink = is_sink
        self.phase = Phase.OPENING
        self.mailbox = Mailbox()
        self.inputs: list[InChannel] = []
        self.outs: list[OutChannel] = []
        self.extra_outs: list[OutChannel] = []
        self.outputs: dict[str, BoundStage] = {}
        self.gate: LessorGate | LesseeGate | None = None
        self.criticals = 0
        """How many critical messages its actor has sent: registrations from before the last one are old."""
        self.strategy: Strategy | None = None
        self.pre_apply: Callable[[Instance, Work], None] | None = None
        self.post_apply: Callable[[Instance, Work, int], None] | None = None
        self.undecided = 0
        self.interrupted: Any = None
        self.starved = 0
        self.queued = False
        self.entry = 0
        self.urgency = 0.0
        self.share = 1.0
        self.cost_ns = 0.0
        self.path_ns = 0.0
        self.progress = ProgressMap()
        self.feeds_windows = False
        self.next_read: NextRead | None = None
        self.poll_due = False
        self.timers_alarm_ns: int | None = None
        self.draining = False
        self.dropped = False
        self.marked = 0
        """The last checkpoint whose mark it has passed, or that was called off: its mark and those before are void."""
        self.shared: bytes | None = None
        """The state as of the last barrier, where the function reads it."""
        self.had_finished = False
        self.origin: Origin | None = None
        """What it goes on from when it is opened."""
        self.watermark_us = EVENT_TIME_MIN_US
        self.metrics = FunctionMetrics()
        self.latency = LatencySketch() if is_sink else None
        self._ctx = Context(
            job_of(address.job), address.function, address.partition, spec.parallelism, tuple(spec.outputs)
        )
        self._timers: dict[Clock, list[tuple[int, int, Any]]] = {Clock.EVENT: [], Clock.PROCESSING: []}
        self._timers_made = 0
        self._spilling: list[State] = []
        self._cold: list[Cold] = []

    @property
    def opening(self) -> bool:
        """Opening sends nothing, so it needs no credits."""
        return self.phase is Phase.OPENING

    def apply(self, work: Work, now_ns: int) -> Outcome:
        """Run the function on one piece of work. Raises whatever the function raises."""
        ctx = self._ctx
        ctx.now_ns = now_ns
        if isinstance(work, Message):
            outcome = Outcome(work.arrived_ns)
            outcome.progress_us = work.progress_us
            payload = work.payload
            if isinstance(payload, pa.RecordBatch):
                ctx.input = work.channel.input
                outcome.rows_in = payload.num_rows
                self.function.process(payload, ctx)
                self._collect(outcome)
            else:
                self._apply_critical(work.channel, payload, outcome)
                self._share(outcome)
        elif work is Errand.POLL:
            outcome = self._poll(now_ns)
        elif isinstance(work, Barrier):
            outcome = self._apply_barrier(work)
        elif work is Errand.SURRENDER:
            outcome = Outcome(now_ns)
            outcome.states = self._surrendered()
        elif isinstance(work, Adoption):
            outcome = Outcome(now_ns)
            self._adopt(work.states)
        elif isinstance(work, Marking):
            outcome = Outcome(now_ns)
            self._pass_mark(work.checkpoint, outcome)
        elif isinstance(work, Publishing):
            outcome = Outcome(now_ns)
            self.function.publish(work.checkpoint)
        elif work is Errand.OPEN:
            outcome = Outcome(now_ns)
            self.function.open(ctx)
            if ctx.sent:
                raise FunctionError(
                    f"function '{self.address.function}' sent in open()",
                    "its consumers may not be there yet",
                    "Send from process(), or set a timer in open() and send from on_timer().",
                )
            self._keep_timers()
            if self.origin is not None:
                self._resume(self.origin)
        elif work is Errand.END:
            outcome = Outcome(now_ns)
            self._advance_watermark(outcome)
            self._finish(outcome)
        else:
            outcome = Outcome(now_ns)
            self._fire_timers(Clock.PROCESSING, now_ns, outcome)
        for state in self._spilling:
            state.settle()
        return outcome

    def close(self) -> None:
        stores, self._cold, self._spilling = self._cold, [], []
        try:
            self.function.close()
        finally:
            for store in stores:
                store.close()

    def spill_to(self, made: Callable[[int], Cold]) -> None:
        """Before it is opened: let each state that can have a cold store beside memory."""
        budget_bytes = self.spec.spill_bytes
        if budget_bytes is not None:
            self._spilling = [state for state in self.function.states().values() if state.spills]
            for state in self._spilling:
                self._cold.append(made(budget_bytes))
                state.spill_to(self._cold[-1], budget_bytes)

    def next_timer_ns(self) -> int | None:
        timers = self._timers[Clock.PROCESSING]
        return timers[0][0] if timers else None

    def snapshot_metrics(self) -> FunctionMetrics:
        """The totals so far, with the queue length of this moment."""
        self.metrics.queued = len(self.mailbox)
        self.metrics.counts = self._ctx.counts
        self.metrics.latency = self.latency.export() if self.latency is not None else None
        self.metrics.strategies = {
            name: why for out in self.outs if out.strategy and (why := out.strategy.why(name := out.receiver.function))
        }
        durations = self.gate.durations if isinstance(self.gate, LessorGate) else None
        self.metrics.barriers = durations.export() if durations is not None else None
        return self.metrics

    def needs_no_barrier(self, channel: InChannel, critical: Payload) -> bool:
        """Whether a critical message of this channel changes nothing yet, since others hold event time back."""
        if isinstance(critical, Watermark):
            time_us = critical.time_us
        elif isinstance(critical, EndOfInput):
            if all(other.ended for other in self.inputs if other is not channel):
                return False
            time_us = EVENT_TIME_MAX_US
        else:
            return False
        if channel.watermark_us > self.watermark_us:
            return True
        others = (other.watermark_us for other in self.inputs if other is not channel)
        return min((time_us, *others)) <= self.watermark_us

    def note(self, channel: InChannel, critical: Payload) -> None:
        """Take such a critical message in."""
        if isinstance(critical, Watermark):
            channel.watermark_us = max(channel.watermark_us, critical.time_us)
        elif isinstance(critical, EndOfInput):
            channel.ended = True
            channel.watermark_us = EVENT_TIME_MAX_US

    def at_watermark(self, watermark_us: int) -> None:
        """A lessee learns from its lessor how far event time has come."""
        self.watermark_us = self._ctx.watermark_us = watermark_us

    def _apply_barrier(self, barrier: Barrier) -> Outcome:
        outcome = Outcome(max(message.arrived_ns for message in barrier.messages))
        outcome.progress_us = max((m.progress_us for m in barrier.messages if m.progress_us is not None), default=None)
        for part in barrier.parts:
            self._consolidate(part)
        first = barrier.messages[0]
        if isinstance(first.payload, Mark):
            # Answers must not depend on when checkpoints are taken, so the state is not shared anew.
            self._pass_mark(first.payload.checkpoint, outcome)
            return outcome
        if isinstance(first.payload, UserCritical) and first.payload.one:
            self._apply_together(barrier.messages, outcome)
        else:
            for message in barrier.messages:
                self._apply_critical(message.channel, message.payload, outcome)
        self._share(outcome)
        return outcome

    def _apply_together(self, messages: list[Message], outcome: Outcome) -> None:
        """A barrier over all upstream actors: their critical messages are one, with the payload of each."""
        names = sorted({message.payload.name for message in messages})
        if len(names) > 1:
            raise FunctionError(
                f"function '{self.address.function}' waits for one barrier and was sent several",
                f"critical messages {', '.join(names)}",
                "Send a critical message with every_upstream=True from all functions that feed it, in the same order.",
            )
        self._ctx.input = messages[0].channel.input
        self.function.on_critical(names[0], [message.payload.payload for message in messages], self._ctx)
        self._collect(outcome)

    # Checkpoints.

    @property
    def durable(self) -> bool:
        """Whether its job has checkpoints."""
        return self._ctx.attempt is not None

    def belong_to(self, attempt: Attempt) -> None:
        """It is of a job with checkpoints."""
        self._ctx.attempt = attempt

    def read_splits(self, splits: int) -> None:
        """For a source: its input is in so many parts."""
        self._ctx.splits = splits

    def _pass_mark(self, checkpoint: int, outcome: Outcome) -> None:
        """All that came before the mark is done and nothing after it: this is what the checkpoint has of the actor."""
        self.marked = checkpoint
        if self.is_sink:
            self.function.seal(checkpoint)
        outcome.snapshot = self._snapshot(checkpoint)
        if self.phase is not Phase.FINISHED:
            self._broadcast(Mark(checkpoint), outcome)

    def _snapshot(self, checkpoint: int) -> Snapshot:
        timers = {clock.value: [(due, tag) for due, _, tag in sorted(self._timers[clock])] for clock in Clock}
        plain = {
            "watermark_us": self.watermark_us,
            "channels": [(*c.sender[1:], c.input, c.watermark_us, c.ended) for c in self.inputs],
            "timers": timers,
            "counts": self._ctx.counts,
            "shared": self.shared,
            "remembered": self.function.remember(),
        }
        states = self.function.states()
        plain["described"] = {name: state.describe() for name, state in states.items()}
        fragments = {name: state.fragments() for name, state in states.items()}
        return Snapshot(checkpoint, packed(plain), fragments, self.phase is Phase.FINISHED, self.watermark_us)

    def _resume(self, origin: Origin) -> None:
        contents = list(origin.contents.values())
        if contents:
            self.at_watermark(min(content.plain["watermark_us"] for content in contents))
        self._resume_channels(origin)
        if origin.whole and contents:
            (content,) = contents
            # Those that `open` has set were set before the checkpoint, too.
            self._timers = {clock: _timers(content.plain["timers"][clock.value]) for clock in Clock}
            self._ctx.counts = content.plain["counts"]
            resuming.rebuild(self, content)
            shared, remembered = content.plain["shared"], content.plain["remembered"]
        else:
            self._timers = resuming.timers_of(self, origin) or self._timers
            self._ctx.counts = resuming.counts_of(origin)
            resuming.share_out(self, origin)
            shared, remembered = resuming.shared_of(self, origin), resuming.regrouped(self, origin)
        self._timers_made = max(map(len, self._timers.values()))
        if shared is not None:
            self._adopt(shared)
        if origin.whole or remembered is not None:
            self.function.recall(remembered)
        self.origin, self.had_finished = None, origin.finished

    def _resume_channels(self, origin: Origin) -> None:
        """How far each input is. Where the wiring is as it was, the snapshot says so for each of its channels."""
        if origin.channels is not None:
            for channel in self.inputs:
                channel.watermark_us, channel.ended = origin.channels[channel.sender.function, channel.sender.partition]
            live = [channel for channel in self.inputs if not channel.ended]
            least_us = min((channel.watermark_us for channel in live), default=EVENT_TIME_MAX_US)
            for channel in live:
                if channel.watermark_us == least_us > self.watermark_us:
                    # All are ahead of the instance: what comes next on the last of them takes it along.
                    channel.watermark_us = self.watermark_us
            return
        ((_, content),) = origin.contents.items()
        found: dict[tuple[Any, ...], list[tuple[int, bool]]] = {}
        for function, partition, name, watermark_us, ended in content.plain["channels"]:
            found.setdefault((function, partition, name), []).append((watermark_us, ended))
        for channel in self.inputs:
            channel.watermark_us, channel.ended = found[*channel.sender[1:], channel.input].pop(0)

    @property
    def is_over(self) -> bool:
        """Whether its inputs have ended and it has not, as can be where it goes on in another dataflow."""
        return bool(self.inputs) and self.phase is Phase.OPEN and all(channel.ended for channel in self.inputs)

    def _surrendered(self) -> bytes | None:
        """Give all states away and begin anew; None when there is none."""
        states = self.function.states()
        if not states:
            return None
        content = {name: state.export() for name, state in states.items()}
        self.function.bind_states()
        return packed(content)

    def _consolidate(self, part: bytes) -> None:
        states = self.function.states()
        for name, content in unpacked(part).items():
            theirs = states[name].fresh()
            theirs.restore(content)
            states[name].merge(theirs)

    def _share(self, outcome: Outcome) -> None:
        """After a barrier of a function that reads its consolidated state, everybody gets it anew."""
        if not self.function.shares_state:
            return
        outcome.states = packed({name: state.export() for name, state in self.function.states().items()})
        self._adopt(outcome.states)

    def _adopt(self, states: bytes) -> None:
        self.shared = states
        consolidated = {}
        for name, content in unpacked(states).items():
            consolidated[name] = self.function.states()[name].fresh()
            consolidated[name].restore(content)
        self._ctx.adopt(consolidated)

    def _poll(self, now_ns: int) -> Outcome:
        reading: Reading = Reading(None, now_ns, done=True) if self.draining else self.function.read(now_ns)
        outcome = Outcome(reading.arrived_ns)
        outcome.progress_us = self.function.progress_us
        if reading.batch is not None and reading.batch.num_rows:
            outcome.rows_in = reading.batch.num_rows
            self.outputs["out"].emit(reading.batch, outcome.sends)
        watermark = self.function.due_watermark()
        if watermark is not None and not reading.done:
            self.watermark_us = watermark
            self._broadcast(Watermark(watermark), outcome)
        if reading.done:
            self._finish(outcome)
        elif reading.next_ns is not None:
            outcome.next_ns = reading.next_ns
            outcome.gather_until_ns = now_ns + self.function.batch_delay_ns
        elif reading.batch is None:
            # A source that has nothing and does not say when must not spin.
            outcome.next_ns = now_ns + 1_000_000
        return outcome

    def _apply_critical(self, channel: InChannel, critical: Payload, outcome: Outcome) -> None:
        if isinstance(critical, Watermark):
            held_back = channel.watermark_us <= self.watermark_us
            channel.watermark_us = max(channel.watermark_us, critical.time_us)
            if held_back:
                self._advance_watermark(outcome)
        elif isinstance(critical, EndOfInput):
            channel.ended = True
            channel.watermark_us = EVENT_TIME_MAX_US
            self._advance_watermark(outcome)
            if all(other.ended for other in self.inputs):
                self._finish(outcome)
        elif isinstance(critical, UserCritical):
            self._ctx.input = channel.input
            self.function.on_critical(critical.name, critical.payload, self._ctx)
            self._collect(outcome)
        else:
            raise InvariantError("an unknown critical message reached an instance", repr(critical))

    def _advance_watermark(self, outcome: Outcome) -> None:
        least = min(channel.watermark_us for channel in self.inputs)
        if least <= self.watermark_us:
            return
        self._fire_timers(Clock.EVENT, least, outcome)
        self.watermark_us = self._ctx.watermark_us = least
        self.function.on_watermark(least, self._ctx)
        self._collect(outcome)
        if least != EVENT_TIME_MAX_US:
            self._broadcast(Watermark(least), outcome)

    def _finish(self, outcome: Outcome) -> None:
        self.function.on_end(self._ctx)
        self._collect(outcome)
        self._broadcast(END_OF_INPUT, outcome)
        outcome.finished = True
        if not self.lingers:
            self.close()

    @property
    def lingers(self) -> bool:
        """Whether it still has something to do when its input has ended: a sink publishes with the last checkpoint."""
        return self.is_sink and self.durable

    def _fire_timers(self, clock: Clock, reached: int, outcome: Outcome) -> None:
        timers = self._timers[clock]
        while timers and timers[0][0] <= reached:
            due, _, tag = heapq.heappop(timers)
            self.function.on_timer(tag, due, self._ctx)
            self._collect(outcome)

    def _collect(self, outcome: Outcome) -> None:
        ctx = self._ctx
        if ctx.sent:
            for output, payload in ctx.sent:
                if output is None:
                    self._broadcast(payload, outcome)
                else:
                    self.outputs[output].emit(payload, outcome.sends)
            ctx.sent = []
        if ctx.timers_set or ctx.timers_cancelled:
            self._keep_timers()

    def _keep_timers(self) -> None:
        ctx = self._ctx
        for clock, due, tag in ctx.timers_set:
            self._timers_made += 1
            heapq.heappush(self._timers[clock], (due, self._timers_made, tag))
        for clock, due, tag in ctx.timers_cancelled:
            kept = [entry for entry in self._timers[clock] if (entry[0], entry[2]) != (due, tag)]
            heapq.heapify(kept)
            self._timers[clock] = kept
        ctx.timers_set, ctx.timers_cancelled = [], []

    def _broadcast(self, critical: Payload, outcome: Outcome) -> None:
        for channel in self.outs:
            outcome.sends.append((channel, critical))


def _timers(pending: list[tuple[int, Any]]) -> list[tuple[int, int, Any]]:
    """Sorted as they are, so a heap."""
    return [(due, number, tag) for number, (due, tag) in enumerate(pending)]
