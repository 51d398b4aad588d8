"""The function API: what runs inside an actor, one batch at a time (dirigo.txt 5.3).

A function receives batches, watermarks, timers and critical messages, keeps state, and sends batches. The stream verbs
of `api/` are built from functions like these, so a user who outgrows a verb writes the function and keeps the rest.

Call order for one instance: `open` once; then `process` per batch in channel order, `on_watermark` each time that the
minimum watermark of all input channels advances, `on_timer` for each timer that is due (event-time timers just before
the `on_watermark` that passes them), `on_critical` per user-defined critical message; `on_end` once, after the last
input channel has ended and the final watermark was seen; `close` once, also after a failure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stretto.actors.discipline import COMBINABLE, SEQUENTIAL, STATELESS, Discipline
from stretto.errors import StorageError
from stretto.state import State, states_of

if TYPE_CHECKING:
    from stretto.actors.context import Context

EVENT_TIME_MIN_US = -(2**63)
EVENT_TIME_MAX_US = 2**63 - 1


class Function:
    """A function on batches. Subclass it, declare state as class attributes, and override what you need."""

    reads_consolidated: bool = False
    """Whether `ctx.consolidated` is used: each barrier then sends the consolidated state to all instances."""

    spill: str | int | None = None
    """The memory limit of each map state per partition, such as "256 MB"; the rest is on disk."""

    progress_us: int | None = None
    """For sources: the progress of the stream; None if it has no event time."""

    holds_back_us: int = 0
    """By how much the watermark that it passes on stays behind its own, because it still sends rows that are older."""

    notice: str | None = None
    """For sources: what the user should know of a read; reported once, with the job's warnings."""

    splits: int | None = None
    """For sources: the number of splits of the input, if it is not that of the partitions."""

    reads_emitted: bool = False
    """For sources: whether entities of the app emit its rows (see `actors/emitted.py`)."""

    irrevocable: bool = False
    """Whether what it does once a checkpoint is complete cannot be withdrawn."""

    @property
    def order_matters(self) -> bool:
        """Whether the result may depend on the order of batches between two critical messages.

        Functions that feed such a function stay sequential, since instances of a spread function overtake each
        other."""
        return self.sequential_because is not None

    def open(self, ctx: Context) -> None:
        """Called once, before the first batch."""

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        """Called per batch; `ctx.input` names its input."""
        raise NotImplementedError

    def shared_reads(self, batch: pa.RecordBatch, ctx: Context) -> Any:
        """Returns the shared objects that `process` will read for this batch (see `stretto.SharedState`), or yields
        them: what it has yielded can be read after it, so that further objects may depend on it.

        Called before `process`; other batches may be processed in between. It should change nothing."""
        return ()

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        """No batch with an event time before `watermark_us` (microseconds) will follow, except late ones."""

    def on_timer(self, tag: Any, due: int, ctx: Context) -> None:
        """A timer that `ctx.set_timer` set is due."""

    def timer_key(self, tag: Any) -> Any:
        """Returns the stream's key that a timer with this tag is for: the value of the key column, or the tuple of the
        values of several. A function with timers must define it to be elastic, since timers move with their keys."""
        raise NotImplementedError

    def on_critical(self, name: str, payload: Any, ctx: Context) -> None:
        """A user-defined critical message arrived, after all messages sent before it on its channel."""

    def on_end(self, ctx: Context) -> None:
        """All inputs have ended; the last chance to send."""

    def close(self) -> None:
        """Releases what `open` acquired; also called after a failure."""

    def remember(self) -> Any:
        """Returns what a checkpoint must store in addition to the states, such as a position: plain data and Arrow
        tables."""
        return None

    def recall(self, remembered: Any) -> None:
        """Resumes from what `remember` returned; called after `open`, when the states are restored."""

    def regroup(self, remembered: dict[int, Any], checkpoint: int) -> Any:
        """Returns what this partition is to `recall` if the parallelism has changed since the checkpoint. `remembered`
        has the values of the former partitions that it follows, by partition. None is not recalled."""
        if any(part is not None for part in remembered.values()):
            raise StorageError("what it remembers cannot be divided", None, "Define regroup() as well as remember().")

    def layouts(self) -> dict[str, str]:
        """Returns a description of what a checkpoint stores of it. A checkpoint fits if the descriptions are equal."""
        found = {name: state.layout for name, state in self.states().items()}
        return found if type(self).remember is Function.remember else {**found, "remembered": "plain data"}

    def input_of(self, state: str) -> str | None:
        """Returns the input whose keys a state is kept by, if inputs are partitioned by different columns."""
        return None

    def seal(self, checkpoint: int) -> None:
        """For sinks of jobs with checkpoints: the rows so far belong to this checkpoint. They must not be visible
        yet."""

    def publish(self, checkpoint: int) -> bool | None:
        """For sinks: this checkpoint is complete, so the rows sealed up to it become visible. May be called again after
        a failure. Returns False if that takes longer; it is then called again soon."""
        return None

    def discard_leftovers(self) -> None:
        """For sinks: it starts from the beginning, so what earlier attempts of the job have left unpublished is
        removed."""

    @property
    def discipline(self) -> Discipline:
        """Derived from the states; a function with a state that cannot combine stays sequential."""
        if self.sequential_because is not None:
            return SEQUENTIAL
        return COMBINABLE if states_of(self) else STATELESS

    @property
    def sequential_because(self) -> str | None:
        """Why the function cannot run on several workers at once, or None when it can."""
        states = states_of(self)
        stiff = sorted(name for name, state in states.items() if not state.combinable)
        if stiff:
            return f"state '{stiff[0]}' has no combining function"
        if type(self).on_timer is not Function.on_timer:
            return "it has timers"
        return None

    @property
    def inelastic_because(self) -> str | None:
        """Why the keys of an instance cannot be divided among workers while it runs, or None when they can."""
        for name, state in sorted(states_of(self).items()):
            if state.indivisible is not None:
                return f"state '{name}' cannot be divided by key: {state.indivisible}"
        if type(self).remember is not Function.remember:
            return "what it remembers beside its states cannot be divided by key"
        if type(self).on_timer is not Function.on_timer and type(self).timer_key is Function.timer_key:
            return "it has timers, and no timer_key() that says for which keys"
        if self.reads_consolidated:
            return "it reads the consolidated state of all its keys"
        return None

    def bind_states(self) -> None:
        """Gives this instance its own copy of every declared state."""
        for name, state in states_of(self).items():
            setattr(self, name, state.fresh())

    def states(self) -> dict[str, State]:
        return states_of(self)
