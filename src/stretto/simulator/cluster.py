"""A whole cluster in one process and in virtual time: workers, the driver's own, the coordinator, the network."""

from __future__ import annotations

import heapq
import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stretto import coordinator as coordination
from stretto import worker as working
from stretto.actors.deployment import Deployment
from stretto.actors.instance import Errand, Instance
from stretto.coordinator import Coordinator, FunctionShape, JobStatus
from stretto.errors import InvariantError
from stretto.machine import FrameArrived, Refuse, Send, Ticked
from stretto.operators.ends import SinkFunction
from stretto.protocol import COORDINATOR, Failure, Frame, Join, Member
from stretto.worker import Worker


@dataclass(frozen=True, slots=True)
class Timing:
    """How long things take, in nanoseconds, each drawn evenly between its two bounds."""

    delay_ns: tuple[int, int] = (20_000, 2_000_000)
    cost_ns: tuple[int, int] = (1_000, 500_000)


@dataclass
class SimulatedJob:
    """What became of a job: its status, its failure, and the writers of the sinks on the driver."""

    status: JobStatus = JobStatus.DEPLOYING
    failure: Failure | None = None
    writers: dict[str, Any] = field(default_factory=dict)


class SimulatedCluster:
    """`SimulatedCluster(workers=5, seed=7)`, then `submit` deployments, then `run` until nothing is left to happen."""

    def __init__(self, workers: int, seed: int, timing: Timing | None = None, steps_max: int = 5_000_000) -> None:
        self._random = random.Random(seed)
        self._timing = timing or Timing()
        self._steps_max = steps_max
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._scheduled = 0
        self._latest_ns: dict[tuple[str, str], int] = {}
        self._wake_ns: dict[str, int] = {}
        self._deployments: dict[str, Deployment] = {}
        self.now_ns = 1_000_000_000
        self.jobs: dict[str, SimulatedJob] = {}
        self.refusals: list[str] = []
        self.coordinator = Coordinator()
        self.workers: dict[str, Worker] = {}
        for name in [*(f"w{i}~1" for i in range(workers)), "driver~1"]:
            self._join(name)
        self.run()

    def submit(self, deployment: Deployment) -> SimulatedJob:
        """Ask the coordinator to run a deployment; call `run` to let it happen."""
        job = self.jobs[deployment.job] = SimulatedJob()
        self._deployments[deployment.job] = deployment
        shapes = tuple(FunctionShape(s.name, s.parallelism, s.on_driver) for s in deployment.functions.values())
        self._later(0, lambda: self._coordinate(coordination.SubmitRequested(deployment.job, "", shapes)))
        return job

    def stop(self, job: str, after_ns: int, drain: bool = False) -> None:
        """Ask for a job to be stopped at a virtual time."""
        self._later(after_ns, lambda: self._coordinate(coordination.StopRequested(job, drain)))

    def run(self) -> None:
        """Let events happen until all jobs have ended and the network is quiet."""
        steps = 0
        while self._queue:
            steps += 1
            if steps > self._steps_max:
                raise InvariantError("the simulation does not end", f"{steps} steps, jobs {self.jobs}")
            self.now_ns, _, happen = heapq.heappop(self._queue)
            happen()
        unended = [name for name, job in self.jobs.items() if not job.status.ended]
        if unended:
            raise InvariantError("nothing is left to happen, and jobs have not ended", ", ".join(unended))

    def _join(self, name: str) -> None:
        self.workers[name] = Worker(name)
        member = Member(name, f"sim://{name}", name, "simulated", 0, on_driver=name.startswith("driver"))
        self._coordinate(coordination.WorkerExpected(name, name))
        self._transmit(name, COORDINATOR, Join(member))

    def _later(self, delay_ns: int, happen: Callable[[], None]) -> None:
        self._scheduled += 1
        heapq.heappush(self._queue, (self.now_ns + delay_ns, self._scheduled, happen))

    def _transmit(self, sender: str, to: str, frame: Frame) -> None:
        """Deliver a frame after a delay, never before one that was sent earlier between the same two."""
        due_ns = self.now_ns + self._random.randint(*self._timing.delay_ns)
        due_ns = max(due_ns, self._latest_ns.get((sender, to), 0) + 1)
        self._latest_ns[sender, to] = due_ns
        if to == COORDINATOR:
            self._later(due_ns - self.now_ns, lambda: self._coordinate(FrameArrived(sender, frame)))
        elif to in self.workers:
            self._later(due_ns - self.now_ns, lambda: self._work(to, FrameArrived(sender, frame)))

    def _coordinate(self, event: coordination.Event) -> None:
        for effect in self.coordinator.handle(event, self.now_ns):
            match effect:
                case Send(to=to, frame=frame):
                    self._transmit(COORDINATOR, to, frame)
                case coordination.AnnounceJob(job=job, status=status, failure=failure):
                    self.jobs[job].status = status
                    self.jobs[job].failure = failure
                case Refuse(reason=reason):
                    self.refusals.append(reason)

    def _work(self, name: str, event: working.Event) -> None:
        worker = self.workers[name]
        for effect in worker.handle(event, self.now_ns):
            match effect:
                case working.Run(instance=instance, work=work):
                    self._execute(name, instance, work)
                case Send(to=to, frame=frame):
                    self._transmit(name, to, frame)
                case working.LoadCode(job=job):
                    self._work(name, working.CodeLoaded(job, self._deployments[job]))
                case working.Close(instances=instances):
                    for instance in instances:
                        instance.close()
                case Refuse(reason=reason):
                    self.refusals.append(reason)
        worker.check_invariants()
        self._wake(name, worker)

    def _wake(self, name: str, worker: Worker) -> None:
        deadline_ns = worker.next_deadline_ns()
        if deadline_ns is None or self._wake_ns.get(name, -1) == deadline_ns:
            return
        self._wake_ns[name] = deadline_ns
        self._later(max(0, deadline_ns - self.now_ns), lambda: self._tick(name, deadline_ns))

    def _tick(self, name: str, deadline_ns: int) -> None:
        if self._wake_ns.get(name) == deadline_ns:
            del self._wake_ns[name]
        self._work(name, Ticked())

    def _execute(self, name: str, instance: Instance, work: Any) -> None:
        cost_ns = self._random.randint(*self._timing.cost_ns)
        event: working.Event
        try:
            outcome = instance.apply(work, self.now_ns)
        except Exception as error:
            failure = Failure(type(error).__name__, str(error), traceback=traceback.format_exc())
            event = working.RunFailed(instance, work, failure)
        else:
            event = working.Ran(instance, work, outcome, cost_ns)
            if work is Errand.OPEN and isinstance(instance.function, SinkFunction) and instance.spec.on_driver:
                self.jobs[instance.address.job].writers[instance.address.function] = instance.function.writer
        self._later(cost_ns, lambda: self._work(name, event))
