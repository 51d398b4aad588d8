"""The function API: what runs inside an actor, one batch at a time (dirigo.txt 5.3).

A function gets batches, watermarks, timers and critical messages, keeps state, and sends batches on. The stream verbs
of `api/` are built from functions like these, so a user who outgrows a verb writes the function and keeps the rest.

Call order for one instance: `open` once; then `process` per batch in channel order, `on_watermark` each time that the
least watermark over all input channels advances, `on_timer` for each timer that is due (event-time timers just before
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
    """Whether `ctx.consolidated` is used: the state as of the last barrier then goes to all instances after it."""

    spill: str | int | None = None
    """How much memory each map state may take in each partition, such as "256 MB"; the rest is on the disk."""

    progress_us: int | None = None
    """For sources: how far the stream has come; None where it has no time."""

    @property
    def order_matters(self) -> bool:
        """Whether the answer may depend on the order of batches between two critical messages.

        Functions that feed such a one stay sequential, since instances of a spread function overtake each other."""
        return self.sequential_because is not None

    def open(self, ctx: Context) -> None:
        """Called once, before the first batch."""

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        """Called per batch; `ctx.input` names the input it came in by."""
        raise NotImplementedError

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        """No batch with an event time before `watermark_us` (microseconds) will come any more, but for late ones."""

    def on_timer(self, tag: Any, due: int, ctx: Context) -> None:
        """A timer that `ctx.set_timer` set is due."""

    def on_critical(self, name: str, payload: Any, ctx: Context) -> None:
        """A user-defined critical message arrived, after all messages sent before it on its channel."""

    def on_end(self, ctx: Context) -> None:
        """All inputs have ended; the last chance to send."""

    def close(self) -> None:
        """Release what `open` took; called also after a failure."""

    def remember(self) -> Any:
        """What a checkpoint must keep beside the states, such as a position: plain data and Arrow tables."""
        return None

    def recall(self, remembered: Any) -> None:
        """Go on from what `remember` gave; called after `open`, when the states are as they were."""

    def regroup(self, remembered: dict[int, Any], checkpoint: int) -> Any:
        """What this partition is to `recall` where the function had other partitions in a checkpoint:
        made of what those that it follows gave, by their numbers. None is not recalled."""
        if any(part is not None for part in remembered.values()):
            raise StorageError("what it remembers cannot be divided", None, "Define regroup() as well as remember().")

    def layouts(self) -> dict[str, str]:
        """What a checkpoint has of it, in words: it fits if these are the same."""
        found = {name: state.layout for name, state in self.states().items()}
        return found if type(self).remember is Function.remember else {**found, "remembered": "plain data"}

    def input_of(self, state: str) -> str | None:
        """The input whose keys a state is kept by, where inputs are dealt by different columns."""
        return None

    def seal(self, checkpoint: int) -> None:
        """For sinks of jobs with checkpoints: what came so far belongs to this checkpoint. It is not to be seen yet."""

    def publish(self, checkpoint: int) -> None:
        """For sinks: This checkpoint is complete, so what was sealed up to it may be seen. After a failure
        it may be asked for again."""

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

    def bind_states(self) -> None:
        """Give this instance its own copy of every declared state."""
        for name, state in states_of(self).items():
            setattr(self, name, state.fresh())

    def states(self) -> dict[str, State]:
        return states_of(self)
