"""Whatever a user's code raises fails its job, and the worker's loop goes on: also sys.exit() and Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, cast

import pyarrow as pa
import pytest

from stretto.actors.context import Context
from stretto.actors.deployment import Deployment, FunctionSpec
from stretto.actors.function import Function
from stretto.actors.routing import BoundStage, StepFailed
from stretto.errors import FunctionError
from stretto.protocol.frames import Frame
from stretto.protocol.jobs import Deploy, Failed, Failure, Stop, Stopped
from stretto.protocol.machines import FrameArrived
from stretto.protocol.membership import COORDINATOR, Member, Members
from stretto.runtime.failures import error_of, failure_of
from stretto.runtime.refusals import Refusals
from stretto.runtime.transport import Transport
from stretto.runtime.worker_loop import WorkerLoop
from stretto.worker.machine import Worker


class Unprintable(Exception):
    """Raises when it is shown."""

    def __str__(self) -> str:
        raise SystemExit("not today")

    __repr__ = __str__


class Indescribable(FunctionError):
    """An error of stretto's own kind that lacks its parts."""

    def __init__(self) -> None:
        pass

    @property
    def fact(self) -> NoReturn:  # type: ignore[override]
        raise KeyboardInterrupt


RAISED: dict[str, tuple[Callable[[], BaseException], str]] = {
    "sys.exit": (lambda: SystemExit(3), "function 'deadly' raised SystemExit: 3"),
    "Ctrl-C": (KeyboardInterrupt, "function 'deadly' raised KeyboardInterrupt"),
    "a generator's end": (GeneratorExit, "function 'deadly' raised GeneratorExit"),
    "no text": (Unprintable, "function 'deadly' raised Unprintable: <Unprintable that cannot be shown"),
    "no description": (Indescribable, "Indescribable was raised, and describing it raised KeyboardInterrupt"),
}


class Deadly(Function):
    """Raises when it is opened, and when it is closed."""

    def __init__(self, make: Callable[[], BaseException]) -> None:
        self._make = make
        self.closes = 0

    def open(self, ctx: Context) -> None:
        raise self._make()

    def close(self) -> None:
        self.closes += 1
        raise self._make()


class NoNetwork:
    """A stand-in for a transport that keeps what is sent."""

    def __init__(self) -> None:
        self.refusals = Refusals("w0~1")
        self.sent: list[Frame] = []

    def send(self, to: str, frame: Frame) -> None:
        self.sent.append(frame)

    def set_members(self, members: list[Member]) -> None:
        """Does nothing."""

    def watch(self, fd: int, wake: Callable[[], None]) -> None:
        """Does nothing."""


class Bench:
    """A worker's loop to which a job of one function was deployed."""

    def __init__(self, load: Callable[[str, str], Deployment]) -> None:
        self.network = NoNetwork()
        self.loop = WorkerLoop(Worker("w0~1"), cast(Transport, self.network), load)
        member = Member("w0~1", "tcp://127.0.0.1:1", "key", "127.0.0.1", 1)
        self.tell(Members(1, [member]))
        self.tell(Deploy("job", "digest", {"deadly": ["w0~1"]}))

    def tell(self, frame: Any) -> None:
        self.loop._handle(FrameArrived(COORDINATOR, frame), 0)

    def run(self) -> None:
        pending, self.loop._pending = self.loop._pending, None
        assert pending is not None
        self.loop._execute(pending)

    @property
    def failure(self) -> Failure:
        (failed,) = [frame for frame in self.network.sent if isinstance(frame, Failed)]
        return failed.failure


def deployed(function: Function) -> Callable[[str, str], Deployment]:
    return lambda job, digest: Deployment(job, {"deadly": FunctionSpec("deadly", function, 1)})


@pytest.mark.parametrize("name", RAISED)
def test_what_a_function_raises_fails_its_job(name: str) -> None:
    make, text = RAISED[name]
    bench = Bench(deployed(Deadly(make)))
    bench.run()
    error = error_of(bench.failure)
    assert isinstance(error, FunctionError)
    assert str(error).startswith(text)
    bench.tell(Stop("another"))
    assert Stopped("another") in bench.network.sent, "the loop goes on"


@pytest.mark.parametrize("name", RAISED)
def test_what_a_module_raises_when_it_is_loaded_fails_its_job(name: str) -> None:
    make, _ = RAISED[name]

    def load(job: str, digest: str) -> Deployment:
        raise make()

    assert type(make()).__name__ in Bench(load).failure.fact


def test_what_a_function_raises_when_it_is_closed_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Closing(Deadly):
        def open(self, ctx: Context) -> None:
            """Opens."""

    function = Closing(lambda: SystemExit(3))
    bench = Bench(deployed(function))
    bench.run()
    bench.tell(Stop("job"))
    assert Stopped("job") in bench.network.sent
    assert "closing job/deadly/0 failed" in caplog.text


@pytest.mark.parametrize("make", [lambda: SystemExit(3), KeyboardInterrupt])
def test_a_fused_step_that_exits_is_named(make: Callable[[], BaseException]) -> None:
    def step(batch: pa.RecordBatch) -> NoReturn:
        raise make()

    stage = object.__new__(BoundStage)
    stage._name, stage._transform, stage._edges, stage._stages = "enrich", step, [], []
    with pytest.raises(StepFailed) as caught:
        stage.emit(pa.record_batch({"n": [1]}), [])
    failure = failure_of(caught.value, None, None)
    assert failure.fact == f"function 'enrich' raised {type(make()).__name__}"
