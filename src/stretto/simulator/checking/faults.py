"""`stretto simulate faults`: tests checkpoints and recovery under random faults, by seed.

A random dataflow runs with checkpoints while workers crash, hang and lose connections, the driver crashes, hangs and
restarts, other drivers take over, the disk is temporarily full, bits flip and clocks step. The published results must
equal those of a run without faults: no row lost, no row duplicated.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from stretto.checkpoints.manifest import Manifest, decoded
from stretto.coordinator.records import JobStatus
from stretto.errors import DamagedError, StrettoError, TakenOverError
from stretto.protocol.membership import COORDINATOR
from stretto.simulator.checking.barriers import TIMINGS, result_of
from stretto.simulator.checking.changing import ChangingScenario
from stretto.simulator.checking.checkers import Violation
from stretto.simulator.checking.scenarios import Scenario
from stretto.simulator.engine.cluster import Weather
from stretto.simulator.engine.drivers import Drivers
from stretto.simulator.engine.durable import Cut, DurableCluster, Moment, Parts
from stretto.simulator.engine.storage import SimulatedFiles

STEPS_MAX = 400_000
BEGIN_NS = 1_000_000_000
SPAN_NS = 200_000_000
"""Faults happen within this time from the start; a run without faults takes about as long."""
ENDS_WITHIN_NS = 60_000_000_000
"""Upper bound for the virtual time of a run with any faults."""
EVERY = 1
"""A crash is tried at every n-th step of a small run."""
CLOCK_STEPS_NS = (-100_000_000_000, -300_000_000, 50_000_000, 5_000_000_000, 100_000_000_000)
LENGTH = 2
"""Sources are this many times longer than in the barrier tests, so that a run has several checkpoints."""

Tested = Scenario | ChangingScenario


@dataclass
class Trial:
    """The run of one seed: its faults and its violations."""

    seed: int
    faults: list[str]
    checkpoints: int = 0
    recoveries: int = 0
    takeovers: int = 0
    """How often a driver was replaced by another one."""
    violations: list[Violation] = field(default_factory=list)


def try_seed(
    seed: int,
    workers_max: int,
    functions_max: int,
    parts: Parts | None = None,
    rescales: bool = False,
    kind: type[Tested] = Scenario,
    disturb: Callable[[DurableCluster, Tested, random.Random], None] | None = None,
    judge: Callable[[DurableCluster], None] | None = None,
    transient: int = 0,
) -> Trial:
    """Run one random scenario with random faults, and compare the results. With `rescales`, it is also restarted with
    other numbers of workers and partitions. `kind` is the kind of its dataflow, `disturb` plans what else happens, and
    `judge` looks at each cluster in the end."""
    chance = random.Random(seed * 7 + 3)
    workers = chance.randint(1, max(1, workers_max))
    scenario, reference = (kind(seed, functions_max, length=LENGTH) for _ in range(2))
    faults = Faults(chance, workers)
    files = SimulatedFiles()
    cluster = DurableCluster(
        workers,
        seed,
        files,
        cuts=tuple(faults.cuts),
        parts=parts,
        parked=chance.choice((0, 0, 1)),
        timing=chance.choice(TIMINGS),
        steps_max=STEPS_MAX,
        weather=faults.weather,
        transient=transient,
    )
    cluster.write_ns = chance.choice(((20_000, 500_000), (100_000, 8_000_000), (1_000_000, 60_000_000)))
    cluster.noticed_ns = chance.choice(((100_000, 2_000_000), (100_000, 40_000_000)))
    cluster.interval_ns = chance.choice((2_000_000, 5_000_000, 20_000_000))
    drivers = Drivers(cluster, STEPS_MAX, BEGIN_NS + ENDS_WITHIN_NS)
    faults.plan(drivers, files)
    trial = Trial(seed, faults.descriptions)
    if rescales:
        _plan_rescales(cluster, scenario, chance, workers_max, trial)
    if disturb is not None:
        disturb(cluster, scenario, chance)
    _run(drivers, scenario, reference, trial, judge)
    return trial


def _plan_rescales(
    cluster: DurableCluster, scenario: Tested, chance: random.Random, workers_max: int, trial: Trial
) -> None:
    for _ in range(chance.randint(1, 3)):
        at_ns, workers = chance.randint(0, SPAN_NS // 2), chance.randint(2, max(2, workers_max))
        deployment = scenario.rescaled(chance)
        partitions = {name: spec.parallelism for name, spec in deployment.functions.items()}
        trial.faults.append(f"restarted at {at_ns} on {workers} workers with {partitions}")
        cluster.plan(at_ns, partial(cluster.restart, deployment, workers))


def try_every_step(seed: int, functions: int) -> Iterator[Trial]:
    """Run a small dataflow on two workers repeatedly: a worker or the driver dies at each step in turn, and then again
    during the recovery from the first death."""
    steps = _small(seed, functions, {}).steps
    for victim in ("w0", "w1", "driver"):
        for step in range(1, steps, EVERY):
            yield _small(seed, functions, {step: victim}).trial
    chance = random.Random(seed)
    for step in range(1, steps, EVERY):
        victims = [chance.choice(("w0", "w1", "driver")) for _ in range(2)]
        yield _small(seed, functions, dict(zip((step, step + chance.randint(1, 80)), victims, strict=True))).trial


@dataclass
class _Small:
    steps: int
    trial: Trial


def _small(seed: int, functions: int, deaths: dict[int, str]) -> _Small:
    scenario = Scenario(seed, functions)
    cluster = DurableCluster(2, seed, SimulatedFiles(), timing=TIMINGS[0], steps_max=STEPS_MAX)
    cluster.interval_ns = 5_000_000
    cluster.write_ns = (20_000, 2_000_000)

    def die(victim: str) -> None:
        if victim == "driver":
            cluster.restart()
        else:
            cluster.crash(next((name for name in cluster.names_of_workers() if name.startswith(victim)), ""))

    for step, victim in deaths.items():
        cluster.at_step(step, partial(die, victim))
    trial = Trial(seed, [f"{victim} dies at step {step}" for step, victim in deaths.items()])
    _run(Drivers(cluster, STEPS_MAX, BEGIN_NS + ENDS_WITHIN_NS), scenario, Scenario(seed, functions), trial)
    return _Small(cluster.steps, trial)


def _run(
    drivers: Drivers,
    scenario: Tested,
    reference: Tested,
    trial: Trial,
    judge: Callable[[DurableCluster], None] | None = None,
) -> None:
    """Run to the end, and compare the published results with the reference."""
    first = drivers.clusters[0]
    first.submit_durable(scenario.deployment)
    trial.violations += run_watched(drivers.run)
    jobs = [job for cluster in drivers.clusters for job in cluster.jobs.values()]
    for cluster in drivers.clusters:
        trial.violations += _failures(cluster)
    if any(job.status is JobStatus.FINISHED for job in jobs):
        trial.violations += result_of(scenario, reference)
    elif not trial.violations:
        trial.violations.append(Violation("liveness", "no driver has finished the app"))
    if scenario.outside.withdrawn and not first.files.flipped:
        text = f"{scenario.outside.withdrawn} files were visible before a checkpoint contained them"
        trial.violations.append(Violation("seen", text))
    trial.takeovers = len(drivers.clusters) + len(drivers.killed) - 1
    for cluster in (*drivers.clusters, *drivers.killed):
        trial.checkpoints += sum(1 for each in cluster.announced if each.manifest is not None)
        trial.recoveries += cluster.recoveries
        trial.violations += [Violation("owner", late) for late in cluster.late]
    if judge is not None:
        for cluster in drivers.clusters:
            judge(cluster)
    drivers.close()


UNENDED = ("queue is empty", "does not end")
"""What the errors say of simulations in which nothing happens any more, or always something."""


def run_watched(run: Callable[[], None]) -> list[Violation]:
    """Runs a simulation to its end; a machine that raises anything at all is broken."""
    try:
        run()
    except Exception as error:
        text = str(error) if isinstance(error, StrettoError) else traceback.format_exc(limit=-3)
        return [Violation("liveness" if any(each in text for each in UNENDED) else "invariant", text)]
    return []


def _failures(cluster: DurableCluster) -> Iterator[Violation]:
    """Yields the failures of a driver. One that was replaced must say so, and no other may."""
    for name, job in cluster.jobs.items():
        if job.status is not JobStatus.FAILED or job.failure is None:
            continue
        if cluster.is_owner(name) or job.failure.error != TakenOverError.__name__:
            yield Violation("failed", f"{job.failure.fact}: {job.failure.traceback or job.failure.detail}")


class Faults:
    """The faults of a run, chosen at random (seeded) before it begins."""

    def __init__(self, chance: random.Random, workers: int) -> None:
        self._chance = chance
        self._plans: list[Callable[[DurableCluster, SimulatedFiles], None]] = []
        self._takeovers: list[Callable[[Drivers], None]] = []
        self.descriptions: list[str] = []
        self.cuts: list[Cut] = []
        names = [f"w{i}~1" for i in range(workers)]
        skew_ns = {name: chance.randint(-50_000_000, 50_000_000) for name in names if chance.random() < 0.2}
        self.weather = Weather(chance.choice((0.0, 0.2)), {}, skew_ns, {})
        kinds = [
            self._crash,
            self._crashes,
            self._restart,
            self._pause,
            self._cut,
            self._cut_and_crash,
            *[self._untimely] * 4,
            self._zombie,
            self._fill,
            self._flip,
            self._flip_and_return,
            self._step,
            self._hang_driver,
            *[self._take_over] * 3,
        ]
        for _ in range(chance.choice((1, 1, 2, 3, 5))):
            chance.choice(kinds)(names)

    def plan(self, drivers: Drivers, files: SimulatedFiles) -> None:
        for plan in self._plans:
            plan(drivers.clusters[0], files)
        for takeover in self._takeovers:
            takeover(drivers)

    def _when(self) -> int:
        return self._chance.randint(0, SPAN_NS if self._chance.random() < 0.5 else SPAN_NS // 4)

    def _add(self, description: str, plan: Callable[[DurableCluster, SimulatedFiles], None]) -> None:
        self.descriptions.append(description)
        self._plans.append(plan)

    def _crash(self, names: list[str]) -> None:
        at_ns = self._when()
        self._add(f"a worker crashes at {at_ns}", partial(_plan_crash, at_ns))

    def _crashes(self, names: list[str]) -> None:
        """Several crashes in sequence, some of them during a recovery or just after."""
        at_ns = self._when()
        for _ in range(self._chance.choice((2, 2, 3))):
            self._add(f"a worker crashes at {at_ns}", partial(_plan_crash, at_ns))
            at_ns += self._chance.randint(1_000_000, 60_000_000)

    def _cut_and_crash(self, names: list[str]) -> None:
        """A connection is lost for a moment, and a worker crashes soon after."""
        at_ns = self._when()
        one, other = self._chance.choices(names, k=2)
        cut = Cut(BEGIN_NS + at_ns, BEGIN_NS + at_ns + 2_000_000, one, other, both=True)
        if one != other:
            self.cuts.append(cut)
            self.descriptions.append(str(cut))
        at_ns += self._chance.randint(2_000_000, 30_000_000)
        self._add(f"a worker crashes at {at_ns}", partial(_plan_crash, at_ns))

    def _untimely(self, names: list[str]) -> None:
        """A fault while an operation is half done, often followed by a crash of a worker."""
        moment, number = self._chance.choice(list(Moment)), self._chance.choice((1, 1, 2, 3, 5, 8))
        name, length_ns = self._chance.choice(names), self._chance.choice((150_000_000, 250_000_000, 500_000_000))
        late_ns = self._chance.randint(0, 10_000_000) if moment is Moment.COMMITTING else 0
        also_ns = self._chance.choice((None, self._chance.randint(1_000_000, 90_000_000)))
        what = self._chance.choice(("crash", "hang", "cut", "restart"))

        def happen(cluster: DurableCluster, victim: str) -> None:
            if what == "crash":
                cluster.plan(late_ns, partial(cluster.crash, victim))
            elif what == "hang":
                cluster.hang(victim, length_ns)
            elif what == "cut":
                cluster.cut_off(victim, name if name != victim else COORDINATOR, 2_000_000)
            else:
                cluster.plan(late_ns, cluster.restart)
            if also_ns is not None:
                cluster.plan(also_ns, cluster.crash_some)

        text = f"{what} when {moment.value}, occurrence {number}"
        self._add(
            text if also_ns is None else f"{text}, and a crash {also_ns} after it",
            lambda cluster, _: cluster.at_moment(moment, number, partial(happen, cluster)),
        )

    def _zombie(self, names: list[str]) -> None:
        """A worker crashes, and another hangs when it resumes, for longer than the timeout."""
        at_ns, length_ns = self._when(), self._chance.randint(200_000_000, 500_000_000)

        def plan(cluster: DurableCluster, files: SimulatedFiles) -> None:
            _plan_crash(at_ns, cluster, files)
            cluster.at_moment(Moment.RESUMING, 1, lambda name: cluster.hang(name, length_ns))

        self._add(f"a worker crashes at {at_ns}, and another hangs for {length_ns} when its sink resumes", plan)

    def _restart(self, names: list[str]) -> None:
        at_ns = self._when()
        self._add(f"the driver dies at {at_ns}", lambda cluster, _: cluster.plan(at_ns, cluster.restart))

    def _hang_driver(self, names: list[str]) -> None:
        at_ns, length_ns = self._when(), self._chance.choice((10_000_000, 100_000_000, 500_000_000))
        workers = self._chance.random() < 0.3
        self._add(
            f"the driver hangs from {at_ns} for {length_ns}" + (" with its workers" if workers else ""),
            lambda cluster, _: cluster.plan(at_ns, lambda: cluster.hang_driver(length_ns, workers)),
        )

    def _take_over(self, names: list[str]) -> None:
        """Another driver takes over, mostly while the first one hangs and after a checkpoint of that one has failed. It
        may end soon, even before its first checkpoint, and then a third one resumes."""
        chance = self._chance
        at_ns = chance.randint(0, SPAN_NS // 4)  # Most runs last longer than that.
        hangs_ns = chance.choice((0, 30_000_000, 100_000_000, 300_000_000))
        late_ns, resumed_after_ns = chance.randint(0, 20_000_000), chance.randint(0, 60_000_000)
        ends_after_ns = chance.choice((None, chance.randint(0, 40_000_000), chance.randint(0, 200_000_000)))
        number = chance.choice((None, 1, 1, 2, 2, 3, 4))
        seed, workers, fails = chance.randrange(2**32), chance.random() < 0.3, chance.random() < 0.5

        def happen(drivers: Drivers) -> None:
            cluster = drivers.clusters[-1]
            cluster.hang_driver(hangs_ns, workers)
            cluster.plan(late_ns, lambda: drivers.take_over(seed, ends_after_ns, resumed_after_ns))

        def plan(drivers: Drivers) -> None:
            cluster = drivers.clusters[0]
            if fails:
                _plan_full(at_ns - 10_000_000, 12_000_000, cluster, cluster.files)
            if number is None:
                cluster.plan(at_ns, lambda: happen(drivers))
            else:
                cluster.at_moment(Moment.COMMITTING, number, lambda _: happen(drivers))

        when = f"at {at_ns}" if number is None else f"when {Moment.COMMITTING.value}, occurrence {number},"
        self.descriptions.append(
            f"the driver hangs {when} for {hangs_ns}, another one takes over {late_ns} later"
            + (f" and ends after {ends_after_ns}, a third one starts {resumed_after_ns} later" if ends_after_ns else "")
        )
        self._takeovers.append(plan)

    def _pause(self, names: list[str]) -> None:
        name, at_ns = self._chance.choice(names), self._when()
        length_ns = self._chance.choice((10_000_000, 100_000_000, 500_000_000))
        self.weather.pauses.setdefault(name, []).append((BEGIN_NS + at_ns, BEGIN_NS + at_ns + length_ns))
        self.descriptions.append(f"{name} hangs from {at_ns} for {length_ns}")

    def _cut(self, names: list[str]) -> None:
        one, other = self._chance.choice(names), self._chance.choice([*names, COORDINATOR])
        if self._chance.random() < 0.5:
            one, other = other, one
        start_ns = BEGIN_NS + self._when()
        cut = Cut(
            start_ns, start_ns + self._chance.choice((2_000_000, 300_000_000)), one, other, self._chance.random() < 0.5
        )
        if one != other:
            self.cuts.append(cut)
            self.descriptions.append(str(cut))

    def _fill(self, names: list[str]) -> None:
        at_ns, length_ns = self._when(), self._chance.choice((5_000_000, 100_000_000))

        self._add(f"the disk is full from {at_ns} for {length_ns}", partial(_plan_full, at_ns, length_ns))

    def _flip(self, names: list[str]) -> None:
        at_ns = self._when()
        chance = random.Random(self._chance.randrange(2**32))

        def flip(files: SimulatedFiles) -> None:
            _flip_last(files, chance)

        self._add(f"a bit flips at {at_ns}", lambda cluster, files: cluster.plan(at_ns, lambda: flip(files)))

    def _flip_and_return(self, names: list[str]) -> None:
        """The last checkpoint is damaged when a job resumes, and readable again when the driver dies soon after."""
        number, later_ns = self._chance.choice((2, 3, 3, 4, 5)), self._chance.randint(0, 30_000_000)
        chance = random.Random(self._chance.randrange(2**32))

        def crash(cluster: DurableCluster) -> None:
            cluster.crash_some()
            cluster.at_next_moment(Moment.FETCHING, lambda _: flip(cluster))

        def flip(cluster: DurableCluster) -> None:
            restore = _flip_last(cluster.files, chance)
            if restore is not None:
                cluster.at_next_moment(Moment.RESUMING, lambda _: cluster.plan(later_ns, lambda: die(cluster, restore)))

        def die(cluster: DurableCluster, restore: Callable[[], None]) -> None:
            restore()
            cluster.restart()

        self._add(
            f"a worker crashes when {Moment.COMMITTING.value}, occurrence {number}, and a bit flips when the job "
            f"resumes; {later_ns} after a sink has resumed, the bit is right again, and the driver dies",
            lambda cluster, _: cluster.at_moment(Moment.COMMITTING, number, lambda _: crash(cluster)),
        )

    def _step(self, names: list[str]) -> None:
        """A wall clock is set, often that of the driver, where the coordinator is."""
        at_ns, by_ns = self._when(), self._chance.choice(CLOCK_STEPS_NS)
        name = self._chance.choice((*names, COORDINATOR, COORDINATOR))
        self._add(
            f"the clock of {name} steps by {by_ns} at {at_ns}",
            lambda cluster, _: cluster.plan(at_ns, lambda: cluster.step_clock(name, by_ns)),
        )


def _plan_crash(at_ns: int, cluster: DurableCluster, files: SimulatedFiles) -> None:
    cluster.plan(at_ns, cluster.crash_some)


def _plan_full(at_ns: int, length_ns: int, cluster: DurableCluster, files: SimulatedFiles) -> None:
    def fill(full: bool) -> None:
        files.full = full

    cluster.plan(max(0, at_ns), lambda: fill(True))
    cluster.plan(max(0, at_ns) + length_ns, lambda: fill(False))


def _flip_last(files: SimulatedFiles, chance: random.Random) -> Callable[[], None] | None:
    """Damage one file of the last checkpoint, only if there is an earlier checkpoint to fall back to. Returns what
    restores it."""
    paths = [f"log/{name}" for name in sorted(files.names("log"))]
    known = [(path, manifest.files()) for path in paths if (manifest := _manifest_at(files, path)) is not None]
    if len(known) < 2 or files.flipped:
        return None
    (_, before), (path, last) = known[-2:]
    own = sorted((last - before) & files.contents.keys())
    files.flipped = True
    return files.flip(chance.choice([*own, path]), chance)


def _manifest_at(files: SimulatedFiles, path: str) -> Manifest | None:
    try:
        return decoded(files.read(path), path)
    except DamagedError:
        return None  # It is a claim, or damaged already.
