"""One instance of an actor: what it does with one piece of work, and what it sends.

`apply` runs the function on the caller's time and returns an Outcome; it moves no message and spends no credit. The
worker machine does that afterwards, so the same code runs under a real clock and in virtual time. Its `Seat` has what
the worker keeps about it (mailbox, urgency, credits, leases), and the instance does not read it.

Errands run by the table `APPLIES`, filled by the modules that know them: `opening.py`, `barriers.py`, `marking.py`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pyarrow import RecordBatch

from stretto.actors import (
    barriers,
    calling,
    emitted,
    inheriting,
    keyed_twins,
    marking,
    opening,
    reading,
    sharing,
    tasks,
    twins,
)
from stretto.actors.address import Address, Attempt, job_of
from stretto.actors.calling import CallingFunction
from stretto.actors.channel import InChannel, Message, OutChannel, Payload
from stretto.actors.context import Clock, Context
from stretto.actors.critical import END_OF_INPUT, EndOfInput, UserCritical, Watermark
from stretto.actors.deployment import FunctionSpec
from stretto.actors.function import EVENT_TIME_MAX_US, EVENT_TIME_MIN_US, Function
from stretto.actors.metrics import summed
from stretto.actors.routing import BoundStage
from stretto.actors.shard_sizes import ShardSizes
from stretto.actors.snapshot import Origin
from stretto.actors.timers import Timers
from stretto.actors.work import Errand, FireTimers, Outcome, Work
from stretto.errors import InvariantError
from stretto.state import State
from stretto.state.cold import Cold

Applies = Callable[[Any, Any, int], Outcome]
"""How a kind of errand runs: called with the instance, the errand and the time."""


class Instance:
    """An instance of an actor: its function with its state, its channels, its timers and its watermark.

    `consolidated` is the state as of the last barrier, where the function reads it. `origin` is what it resumes from
    when it is opened. `others_counts` are the counters of instances of its actor that write nothing into checkpoints
    themselves: lessees, and tasks whose lease has ended. `finished` once its input has ended, also if that was before
    the checkpoint it resumes from."""

    def __init__(self, address: Address, spec: FunctionSpec, is_source: bool, is_sink: bool) -> None:
        self.address = address
        self.spec = spec
        self.discipline = spec.discipline
        self.function: Any = copy.deepcopy(spec.function)
        self.function.bind_states()
        self.sharing = sharing.bound(self.function)
        self.is_source = is_source
        self.is_sink = is_sink
        self.calls = isinstance(spec.function, CallingFunction)
        self.reads_emitted = spec.function.reads_emitted
        self.inputs: list[InChannel] = []
        self.outs: list[OutChannel] = []
        self.outputs: dict[str, BoundStage] = {}
        self.timers = Timers()
        self.watermark_us = EVENT_TIME_MIN_US
        self.consolidated: bytes | None = None
        self.origin: Origin | None = None
        self.draining = False
        self.finished = False
        schemas = {name: stage.schema for name, stage in spec.outputs.items()}
        self.ctx = Context(job_of(address.job), address.function, address.partition, spec.parallelism, schemas)
        self.shard_rows = tasks.ShardRows(spec.partitioned_by) if spec.tasks_max else None
        self.shard_sizes = ShardSizes()
        self.others_counts: dict[str, int] = {}
        self._spilling: list[State] = []
        self._cold: list[Cold] = []
        self._former: Instance | None = None
        self._given = False

    def apply(self, work: Work, now_ns: int) -> Outcome:
        """Run the function on one piece of work. Raises whatever the function raises."""
        ctx = self.ctx
        ctx.now_ns = now_ns
        if type(work) is Message:
            outcome = Outcome(work.arrived_ns)
            outcome.progress_us = work.progress_us
            if self.calls:
                ctx.arrived_ns = work.arrived_ns
            payload = work.payload
            if type(payload) is RecordBatch:
                ctx.input = work.channel.input
                outcome.rows_in = payload.num_rows
                self.function.process(payload, ctx)
                if self.shard_rows is not None:
                    tasks.after_rows(self, work)
                self.collect(outcome)
            else:
                self.apply_critical(work.channel, payload, outcome)
                barriers.share(self, outcome)
        else:
            outcome = APPLIES[type(work)](self, work, now_ns)
        for state in self._spilling:
            state.settle()
        if self.calls:
            calling.after_run(self, work, outcome)
        return outcome

    def close(self) -> None:
        if self._given or self._former is not None:
            return  # The function is another instance's, or still is.
        stores, self._cold, self._spilling = self._cold, [], []
        try:
            self.function.close()
        finally:
            for store in stores:
                store.close()

    def take_over(self, former: Instance) -> None:
        """Uses the function of another instance from now on, with all that belongs to it. It is the other's until
        `keep` is called: if the handover is called off, the other one goes on with it."""
        self._former = former
        self.function, self.ctx, self.timers = former.function, former.ctx, former.timers
        self.sharing = former.sharing
        self.watermark_us, self.consolidated = former.watermark_us, former.consolidated
        self._spilling, self._cold = former._spilling, former._cold

    def keep(self) -> None:
        """What was taken over is this instance's alone."""
        if self._former is not None:
            self._former._given = True
            self._former = None
            for state in self.function.states().values():
                state.forget_fragments()  # Those that are stored are another actor's.

    def release(self) -> None:
        """Lets go of the function with its state, so that its memory is free before the next garbage collection. Called
        after it is closed."""
        self.function, self.timers, self.consolidated = Function(), Timers(), None

    def spill_to(self, made: Callable[[int], Cold]) -> None:
        """Gives each state that can spill a cold store. Called before it is opened."""
        budget_bytes = self.spec.spill_bytes
        if budget_bytes is not None:
            self._spilling = [state for state in self.function.states().values() if state.spills]
            for state in self._spilling:
                self._cold.append(made(budget_bytes))
                state.spill_to(self._cold[-1], budget_bytes)

    # What the worker sets.

    @property
    def durable(self) -> bool:
        """Whether its job has checkpoints."""
        return self.ctx.attempt is not None

    def belong_to(self, attempt: Attempt) -> None:
        """Sets the attempt of a job with checkpoints."""
        self.ctx.attempt = attempt

    def read_splits(self, splits: int) -> None:
        """Sets the number of splits of a source's input."""
        self.ctx.splits = splits

    def limit_read(self, rows: int | None) -> None:
        """Sets how many rows a source may read at once; None for no limit but its own."""
        if self.is_source:
            self.function.read_rows_max = rows

    def at_watermark(self, watermark_us: int) -> None:
        """Sets a lessee's watermark to its lessor's."""
        self.watermark_us = self.ctx.watermark_us = watermark_us

    def count_of_others(self, counts: Iterable[Mapping[str, int]]) -> None:
        """Sets the counters of other instances that its next snapshot is to have."""
        self.others_counts = summed(counts)

    @property
    def sent_watermark_us(self) -> int:
        """The watermark that it has passed on."""
        if self.calls and not self.finished:
            sent_us: int = self.function.sent_watermark_us
            return sent_us
        if self.watermark_us == EVENT_TIME_MAX_US:
            return EVENT_TIME_MAX_US
        held_back_us: int = self.watermark_us - self.function.holds_back_us
        return max(held_back_us, EVENT_TIME_MIN_US)

    @property
    def inputs_ended(self) -> bool:
        return bool(self.inputs) and all(channel.ended for channel in self.inputs)

    @property
    def lingers(self) -> bool:
        """Whether it has work left when its input has ended: a sink publishes with the last checkpoint."""
        return self.is_sink and self.durable

    # Critical messages.

    def needs_no_barrier(self, channel: InChannel, critical: Payload) -> bool:
        """Whether a critical message of this channel changes nothing yet, because other channels hold the watermark
        back."""
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
        """Records a critical message that needs no barrier."""
        if isinstance(critical, Watermark):
            channel.watermark_us = max(channel.watermark_us, critical.time_us)
        elif isinstance(critical, EndOfInput):
            channel.ended = True
            channel.watermark_us = EVENT_TIME_MAX_US

    def apply_critical(self, channel: InChannel, critical: Payload, outcome: Outcome) -> None:
        """Runs a critical message that needs no other instance."""
        if isinstance(critical, Watermark):
            held_back = channel.watermark_us <= self.watermark_us
            channel.watermark_us = max(channel.watermark_us, critical.time_us)
            if held_back:
                self.advance_watermark(outcome)
        elif isinstance(critical, EndOfInput):
            channel.ended = True
            channel.watermark_us = EVENT_TIME_MAX_US
            self.advance_watermark(outcome)
            if all(other.ended for other in self.inputs) and not self.calls:
                self.finish(outcome)
        elif isinstance(critical, UserCritical):
            self.ctx.input = channel.input
            self.function.on_critical(critical.name, critical.payload, self.ctx)
            self.collect(outcome)
        else:
            raise InvariantError("an unknown critical message reached an instance", repr(critical))

    def advance_watermark(self, outcome: Outcome) -> None:
        """Advances to the minimum watermark of all inputs, if that is later than the present one."""
        least = min(channel.watermark_us for channel in self.inputs)
        if least <= self.watermark_us:
            return
        self.fire_timers(Clock.EVENT, least, outcome)
        self.at_watermark(least)
        self.function.on_watermark(least, self.ctx)
        self.collect(outcome)
        if least != EVENT_TIME_MAX_US and not self.calls:
            self.broadcast(Watermark(self.sent_watermark_us), outcome)

    def finish(self, outcome: Outcome) -> None:
        """Ends the function, since its input has ended."""
        self.function.on_end(self.ctx)
        self.collect(outcome)
        self.broadcast(END_OF_INPUT, outcome)
        outcome.finished = self.finished = True
        if not self.lingers:
            self.close()

    # What a run sends.

    def fire_timers(self, clock: Clock, reached: int, outcome: Outcome) -> None:
        """Calls the function for each timer that is due."""
        while (timer := self.timers.pop_due(clock, reached)) is not None:
            due, tag = timer
            self.function.on_timer(tag, due, self.ctx)
            if self.shard_rows is not None:
                tasks.refuse_critical(self)
            self.collect(outcome)

    def collect(self, outcome: Outcome) -> None:
        """Moves what the function has sent to the outcome, and records the timers that it has set."""
        ctx = self.ctx
        if self.sharing is not None:
            sharing.collect(self, self.sharing, outcome)
        if ctx.sent:
            for output, payload in ctx.sent:
                if output is None:
                    self.broadcast(payload, outcome)
                else:
                    self.outputs[output].emit(payload, outcome.sends)
            ctx.sent = []
        if ctx.timers_set or ctx.timers_cancelled:
            self.timers.take_from(ctx)

    def broadcast(self, critical: Payload, outcome: Outcome) -> None:
        """Sends a critical message to all partitions of all consumers."""
        for channel in self.outs:
            outcome.sends.append((channel, critical))


def fire_timers(instance: Instance, errand: FireTimers, now_ns: int) -> Outcome:
    """Fires the processing-time timers that are due."""
    outcome = Outcome(now_ns)
    instance.fire_timers(Clock.PROCESSING, now_ns, outcome)
    return outcome


APPLIES: dict[type, Applies] = {
    FireTimers: fire_timers,
    **reading.APPLIES,
    **opening.APPLIES,
    **barriers.APPLIES,
    **marking.APPLIES,
    **tasks.APPLIES,
    **inheriting.APPLIES,
    **twins.APPLIES,
    **keyed_twins.APPLIES,
    **calling.APPLIES,
    **emitted.APPLIES,
    **sharing.APPLIES,
}
"""Every kind of errand, and how it runs. Another room registers its kinds with `register`."""


def register(kind: type[Errand], applies: Applies) -> None:
    """Registers another kind of errand that instances can run."""
    if kind in APPLIES:
        raise InvariantError("a kind of errand is registered twice", kind.__name__)
    APPLIES[kind] = applies
