"""The worker machine, event by event: numbering, credits, membership, and what it refuses."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from stretto.actors.address import Address
from stretto.actors.channel import CREDITS_PER_CHANNEL, Message
from stretto.actors.context import Clock, Context
from stretto.actors.critical import EndOfInput, UserCritical, Watermark
from stretto.actors.deadlines import HANDICAP, LAX_NS
from stretto.actors.deployment import ByKey, Deployment, Edge, FunctionSpec, Rebalance, Stage
from stretto.actors.function import Function
from stretto.errors import FunctionError
from stretto.protocol.channels import CriticalSent, Data, Grant, OpenChannel
from stretto.protocol.jobs import Deploy, Failed, Failure, Finished, Ready, Start, Stop, Stopped
from stretto.protocol.machines import FrameArrived, Refuse, Send, Ticked
from stretto.protocol.membership import COORDINATOR, Leave, Member, Members
from stretto.runtime.codec import encode
from stretto.worker.events import CodeLoaded, Effect, Exit, LoadCode, Ran, Run, RunFailed
from stretto.worker.machine import Worker
from stretto.worker.reports import REPORT_EVERY_NS

SCHEMA = pa.schema([("n", pa.int64())])


def rows(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64())], schema=SCHEMA)


class Echo(Function):
    """Sends on what it gets and notes everything it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        self.told.append((ctx.input, batch.column("n").to_pylist()))
        ctx.send(batch)

    def on_watermark(self, watermark_us: int, ctx: Context) -> None:
        self.told.append(("watermark", watermark_us))

    def on_timer(self, tag: Any, due: int, ctx: Context) -> None:
        self.told.append(("timer", tag, due))

    def on_critical(self, name: str, payload: Any, ctx: Context) -> None:
        self.told.append(("critical", name, payload))
        ctx.send_critical(name, payload)

    def on_end(self, ctx: Context) -> None:
        self.told.append("end")


def deployment(echo: Function | None = None, targets: int = 1) -> Deployment:
    """A middle function `echo` on this worker, fed by `up` and feeding `down`, both of them elsewhere."""
    feed = Stage("up", SCHEMA, edges=[Edge("echo", "in", Rebalance())])
    drain = Stage("echo", SCHEMA, edges=[Edge("down", "in", ByKey(("n",)))])
    return Deployment(
        "job",
        {
            "up": FunctionSpec("up", Echo(), 2, {"out": feed}),
            "echo": FunctionSpec("echo", echo or Echo(), 1, {"out": drain}),
            "down": FunctionSpec("down", Echo(), targets),
        },
    )


class Bench:
    """A worker `me~1` with its peers, driven by hand; runs are executed at once unless held."""

    def __init__(self, echo: Function | None = None, targets: int = 1, slide_us: int | None = None) -> None:
        self.worker = Worker("me~1")
        self.now_ns = 1_000_000_000
        self.cost_ns = 10
        self.held: list[Run] = []
        self.hold = False
        names = ["me~1", "up~1", "down~1"]
        self.tell(FrameArrived(COORDINATOR, Members(1, [Member(n, n, n, "h", 1) for n in names])))
        placement = {"up": ["up~1", "up~1"], "echo": ["me~1"], "down": ["down~1"] * targets}
        (load,) = self.tell(FrameArrived(COORDINATOR, Deploy("job", "digest", placement)))
        assert load == LoadCode("job", "digest")
        code = deployment(echo, targets)
        code.functions["down"].slide_us = slide_us
        effects = self.tell(CodeLoaded("job", code))
        assert Send(COORDINATOR, Ready("job")) in effects
        self.tell(FrameArrived(COORDINATOR, Start("job")))
        for partition in range(2):
            opening = OpenChannel(7 + partition, Address("job", "up", partition), Address("job", "echo", 0), "in", b"")
            self.tell(FrameArrived("up~1", opening))

    def tell(self, event: Any) -> list[Effect]:
        effects = self.worker.handle(event, self.now_ns)
        self.worker.check_invariants()
        collected = [effect for effect in effects if not isinstance(effect, Run)]
        for effect in effects:
            if isinstance(effect, Run):
                if self.hold:
                    self.held.append(effect)
                else:
                    collected += self.execute(effect)
        return collected

    def execute(self, run: Run) -> list[Effect]:
        try:
            outcome = run.seat.instance.apply(run.work, self.now_ns)
        except Exception as error:
            return self.tell(RunFailed(run.seat, run.work, Failure("FunctionError", str(error))))
        return self.tell(Ran(run.seat, run.work, outcome, self.cost_ns))

    def data(self, seq: int, *numbers: int, channel: int = 7) -> list[Effect]:
        return self.tell(FrameArrived("up~1", Data(channel, seq, 5, rows(*numbers))))

    def critical(self, seq: int, critical: Any, channel: int = 7) -> list[Effect]:
        return self.tell(FrameArrived("up~1", CriticalSent(channel, seq, 5, critical)))

    @property
    def echo(self) -> Any:
        return self.worker.jobs["job"].seats[Address("job", "echo", 0)].instance.function


def sent(effects: list[Effect], kind: type[Any]) -> list[Any]:
    return [effect.frame for effect in effects if isinstance(effect, Send) and isinstance(effect.frame, kind)]


def test_a_schema_goes_once_per_channel_ahead_of_its_first_message() -> None:
    bench = Bench()
    first = [e.frame for e in bench.data(1, 4) if isinstance(e, Send) and e.to == "down~1"]
    assert [type(frame) for frame in first] == [OpenChannel, Data]
    assert pa.ipc.read_schema(pa.py_buffer(first[0].schema)) == SCHEMA
    second = [e.frame for e in bench.data(2, 5) if isinstance(e, Send) and e.to == "down~1"]
    assert [type(frame) for frame in second] == [Data]
    assert (first[1].seq, second[0].seq) == (1, 2)
    assert second[0].arrived_ns == 5


def test_a_gap_in_a_channel_fails_the_job_loudly() -> None:
    bench = Bench()
    bench.data(1, 4)
    (failed,) = sent(bench.data(3, 6), Failed)
    assert "lost its order" in failed.failure.fact
    assert "job" not in bench.worker.jobs


def test_a_sender_without_credits_waits_until_they_come_back() -> None:
    bench = Bench()
    for seq in range(1, CREDITS_PER_CHANNEL + 11):
        bench.data(seq, seq)
    assert len(bench.echo.told) == CREDITS_PER_CHANNEL
    effects = bench.tell(FrameArrived("down~1", Grant(1, 4)))
    assert len(sent(effects, Data)) == 4
    assert len(bench.echo.told) == CREDITS_PER_CHANNEL + 4


def test_credits_go_back_to_a_remote_sender_singly_at_first_and_later_by_the_half_window() -> None:
    bench = Bench()
    grants = [grant for seq in range(1, CREDITS_PER_CHANNEL + 1) for grant in sent(bench.data(seq, 1), Grant)]
    assert {grant.number for grant in grants} == {7}
    assert [grant.credits for grant in grants] == [1, 2, 4, 8, CREDITS_PER_CHANNEL // 2]


def test_the_least_watermark_of_all_channels_counts() -> None:
    bench = Bench()
    bench.critical(1, Watermark(100))
    assert bench.echo.told == []
    effects = bench.critical(1, Watermark(70), channel=8)
    assert bench.echo.told == [("watermark", 70)]
    assert [frame.critical for frame in sent(effects, CriticalSent)] == [Watermark(70)]
    bench.critical(2, Watermark(60), channel=8)
    assert bench.echo.told == [("watermark", 70)]
    bench.critical(3, Watermark(200), channel=8)
    assert bench.echo.told[-1] == ("watermark", 100)


def test_the_end_comes_when_every_channel_has_ended() -> None:
    bench = Bench()
    bench.critical(1, EndOfInput())
    bench.data(1, 9, channel=8)
    effects = bench.critical(2, EndOfInput(), channel=8)
    assert bench.worker.jobs["job"].seats[Address("job", "echo", 0)].instance.function.told[-1] == "end"
    assert sent(effects, Finished) == [Finished(Address("job", "echo", 0))]
    assert [frame.critical for frame in sent(effects, CriticalSent)] == [EndOfInput()]


def test_a_users_critical_message_keeps_its_place_in_the_order() -> None:
    bench = Bench()
    bench.hold = True
    bench.data(1, 1)
    bench.critical(2, UserCritical("flush", {"upto": 3}))
    bench.data(3, 2)
    bench.hold = False
    effects = bench.execute(bench.held.pop())
    assert bench.echo.told == [("in", [1]), ("critical", "flush", {"upto": 3}), ("in", [2])]
    to_down = [type(e.frame) for e in effects if isinstance(e, Send) and e.to == "down~1"]
    assert to_down == [OpenChannel, Data, CriticalSent, Data]


def test_a_joint_critical_message_waits_for_every_upstream_actor_without_any_lessee() -> None:
    bench = Bench()
    bench.critical(1, UserCritical("flush", 1, one=True))
    bench.data(2, 5)
    bench.data(1, 6, channel=8)
    assert bench.echo.told == [("in", [6])]
    bench.critical(2, UserCritical("flush", 2, one=True), channel=8)
    assert bench.echo.told == [("in", [6]), ("critical", "flush", [1, 2]), ("in", [5])]


def test_an_upstream_actor_that_ends_is_not_waited_for() -> None:
    bench = Bench()
    bench.critical(1, UserCritical("flush", 1, one=True))
    bench.data(2, 5)
    assert bench.echo.told == []
    bench.critical(1, EndOfInput(), channel=8)
    assert bench.echo.told == [("critical", "flush", [1]), ("in", [5])]


def test_critical_messages_go_to_every_partition_downstream() -> None:
    bench = Bench(targets=3)
    bench.data(1, *range(50))
    effects = bench.critical(2, UserCritical("flush"))
    assert len(sent(effects, CriticalSent)) == 3


class Timed(Echo):
    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        ctx.set_timer(500, "event")
        ctx.set_timer(400, "gone")
        ctx.cancel_timer(400, "gone")
        ctx.set_timer(ctx.now_ns + 1_000, "processing", Clock.PROCESSING)


def test_timers_of_both_clocks_fire_when_due() -> None:
    bench = Bench(Timed())
    bench.data(1, 1)
    assert bench.worker.next_deadline_ns() == bench.now_ns + 1_000
    bench.now_ns += 1_000
    bench.tell(Ticked())
    assert bench.echo.told == [("timer", "processing", bench.now_ns)]
    for channel in (7, 8):
        bench.critical(2 if channel == 7 else 1, Watermark(600), channel)
    assert bench.echo.told[1:] == [("timer", "event", 500), ("watermark", 600)]


class Eager(Echo):
    def open(self, ctx: Context) -> None:
        ctx.send(rows(1))


def test_a_function_that_sends_in_open_is_told_not_to() -> None:
    with pytest.raises(AssertionError):
        Bench(Eager())


class Lost(Echo):
    def process(self, batch: pa.RecordBatch, ctx: Context) -> None:
        ctx.send(batch, "nowhere")


def test_a_large_batch_costs_more_credits_and_all_of_them_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stretto.actors.channel.CREDIT_BYTES", 1_024)
    bench = Bench()
    (first,) = sent(bench.data(1, 1), Data)
    (large,) = sent(bench.data(2, *range(10_000)), Data)
    assert first.credits == 1
    assert large.credits > 80_000 // 1_024, "it may travel, though it costs more credits than there are"
    assert not sent(bench.data(3, 1), Data), "the next one waits"
    assert not sent(bench.tell(FrameArrived("down~1", Grant(1, large.credits - CREDITS_PER_CHANNEL))), Data)
    assert len(sent(bench.tell(FrameArrived("down~1", Grant(1, 2))), Data)) == 1
    refused = bench.worker.refused
    bench.tell(FrameArrived("down~1", Grant(1, CREDITS_PER_CHANNEL + 1)))
    assert bench.worker.refused == refused + 1, "more than are outstanding"
    bench.tell(FrameArrived("down~1", Grant(1, CREDITS_PER_CHANNEL)))
    assert bench.worker.refused == refused + 1


def test_the_credits_of_a_large_message_are_returned_by_its_receiver() -> None:
    bench = Bench()
    assert sent(bench.tell(FrameArrived("up~1", Data(7, 1, 5, rows(1), credits=77))), Grant)[0].credits == 77


@pytest.mark.parametrize("slide_us", [1, 7, 2**40])
@pytest.mark.parametrize("extreme_us", [2**63 - 1, -(2**63)])
def test_event_times_at_the_extremes_cross_the_wire(slide_us: int, extreme_us: int) -> None:
    """A windowed receiver's messages carry the end of their window and its predicted arrival, both of 64 bits."""
    bench = Bench(slide_us=slide_us)
    for seq in range(1, 40):
        progress_us = seq * slide_us if seq < 30 else extreme_us
        bench.now_ns += 1_000_000_000
        event = FrameArrived("up~1", Data(7, seq, bench.now_ns, rows(seq), progress_us, bench.now_ns))
        for frame in sent(bench.tell(event), Data):
            assert encode(frame)
            assert -(2**63) <= (frame.progress_us or 0) < 2**63
        bench.tell(FrameArrived("down~1", Grant(1, 1)))


def test_an_unknown_output_is_named() -> None:
    bench = Bench(Lost())
    (failed,) = sent(bench.data(1, 1), Failed)
    assert "'nowhere'" in failed.failure.fact
    assert "Declare" in failed.failure.fact
    context = Context("job", "f", 0, 1, {"out": SCHEMA})
    with pytest.raises(FunctionError, match="it has out"):
        context.send(rows(1), "nowhere")


def test_strangers_old_memberships_and_unknown_frames_are_refused() -> None:
    bench = Bench()
    before = bench.worker.refused
    for event in (
        FrameArrived("down~0", Data(1, 1, 0, rows(1))),
        FrameArrived("other", Stop("job")),
        FrameArrived(COORDINATOR, Members(1, [])),
        FrameArrived("up~1", Ready("job")),
        FrameArrived(COORDINATOR, Start("unknown")),
    ):
        effects = bench.tell(event)
        assert [type(effect) for effect in effects if not isinstance(effect, Send)] == [Refuse]
    assert bench.worker.refused == before + 5
    assert "job" in bench.worker.jobs


def test_a_member_can_neither_claim_anothers_channel_nor_give_credits_that_are_not_its_own() -> None:
    bench = Bench()
    claim = OpenChannel(3, Address("job", "up", 0), Address("job", "echo", 0), "in", b"")
    bench.data(1, 1)
    for event in (
        FrameArrived("down~1", claim),
        FrameArrived("up~1", Grant(1, 1)),
        FrameArrived("down~1", Grant(1, 2)),
        FrameArrived("down~1", Grant(1, -5)),
    ):
        before = bench.worker.refused
        bench.tell(event)
        assert bench.worker.refused == before + 1
    assert [rows for _, rows in bench.echo.told] == [[1]]
    bench.data(2, 2)
    assert len(bench.echo.told) == 2


def test_frames_of_a_dropped_job_are_stale_not_hostile() -> None:
    bench = Bench()
    assert Send(COORDINATOR, Stopped("job")) in bench.tell(FrameArrived(COORDINATOR, Stop("job")))
    before = bench.worker.refused
    assert bench.data(1, 1) == []
    assert bench.worker.refused == before
    assert bench.worker.stale == 1


def test_a_superseded_incarnation_leaves() -> None:
    bench = Bench()
    effects = bench.tell(FrameArrived(COORDINATOR, Members(2, [Member("me~2", "", "", "h", 1)])))
    assert [type(effect) for effect in effects] == [Exit]


def test_leaving_drops_all_jobs() -> None:
    bench = Bench()
    effects = bench.tell(FrameArrived(COORDINATOR, Leave()))
    assert isinstance(effects[-1], Exit)
    assert bench.worker.jobs == {}


def test_a_run_of_a_job_that_was_dropped_meanwhile_is_forgotten() -> None:
    bench = Bench()
    bench.hold = True
    bench.data(1, 1)
    bench.tell(FrameArrived(COORDINATOR, Stop("job")))
    assert bench.execute(bench.held.pop()) == []
    assert not bench.worker.busy


def test_the_most_urgent_message_runs_first_and_what_is_ahead_of_it_on_its_channel_is_as_urgent() -> None:
    """A batch that has time waits ahead of a watermark that has none: both must come before what is in between."""
    bench = Bench()
    bench.hold = True
    bench.tell(FrameArrived("up~1", Data(8, 1, 5, rows(1), None, 10)))  # Runs, so that the others wait.
    bench.tell(FrameArrived("up~1", Data(7, 1, 5, rows(2), None, 900)))
    echo = bench.worker.jobs["job"].seats[Address("job", "echo", 0)]

    def waiting() -> list[tuple[int, int]]:
        return [(work.seq, work.deadline_ns) for work in echo.mailbox if isinstance(work, Message)]

    assert waiting() == [(1, 900)]
    bench.tell(FrameArrived("up~1", CriticalSent(7, 2, 5, Watermark(7), None, None, 50)))
    assert waiting() == [(1, 50), (2, 50)]
    bench.tell(FrameArrived("up~1", Data(8, 2, 5, rows(4), None, 700)))
    bench.tell(FrameArrived("up~1", Data(7, 3, 5, rows(3), None, 800)))
    assert waiting() == [(1, 50), (2, 50), (2, 700), (3, 800)], "what is behind has time"
    bench.tell(FrameArrived("up~1", Data(8, 3, 5, rows(5), None, 40)))
    assert waiting() == [(2, 40), (3, 40), (1, 50), (2, 50), (3, 800)]


def test_who_takes_much_of_the_worker_yields_to_others_until_it_takes_less() -> None:
    """The handicap follows the reports: it is up to a quarter of what the job's objective allows, here the default."""
    bench = Bench()
    echo = bench.worker.jobs["job"].seats[Address("job", "echo", 0)]

    def after_interval(seq: int, cost_ns: int) -> float:
        bench.now_ns += REPORT_EVERY_NS
        bench.cost_ns = cost_ns
        bench.data(seq, 1)
        bench.now_ns += 1
        bench.tell(Ticked())
        return echo.demand.handicap_ns

    for seq in range(1, 9):
        greedy = after_interval(seq, REPORT_EVERY_NS)
    assert greedy == pytest.approx(HANDICAP * LAX_NS, rel=0.02)
    for seq in range(9, 17):
        modest = after_interval(seq, REPORT_EVERY_NS // 10)
    assert modest == pytest.approx(HANDICAP * LAX_NS / 10, rel=0.1)
