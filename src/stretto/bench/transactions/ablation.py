"""What the parts of the protocol bring: each is left out in turn, on the same calls, in one run.

| left out | what happens instead |
| --- | --- |
| fallback | a transaction that lost runs again in the next epoch (styx.txt 7.3) |
| early replies | a reply is sent when a snapshot with its epoch is complete (7.2) |
| batching | each call, result and share between workers is a frame of its own (6) |
| local calls | a call on the same worker is encoded and waits for the next round, like any other |
| reordering | a transaction that has read what a lower one writes has lost (Aria) |

Only benches and tests leave anything out: the machines are put together from other parts, and have no switch for it,
but for the fallback and the reordering, which are settings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from stretto.bench.transactions.in_process import InProcess, packed
from stretto.bench.transactions.measure import percentiles
from stretto.bench.transactions.workload import Run, Workload
from stretto.protocol.machines import Send
from stretto.protocol.transactions import Invoke, Returned, Round, SnapshotKept, Wave
from stretto.runtime.garbage import calm_garbage_collector
from stretto.transactions.attempt import Attempt, Settings, WorkerParts
from stretto.transactions.epoch import EpochParts, Settled
from stretto.transactions.execution import Execution, Part
from stretto.transactions.machine import TransactionWorker

SNAPSHOT_NS = 1_000_000_000
"""The time between two snapshots, in virtual time. (The default is 4 s.)"""
ALL = "all"
ROUNDS = 3


class RepliesAfterSnapshots(TransactionWorker):
    """Sends a reply when a snapshot that has its transaction is complete."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._held: list[Send] = []

    def _settle(self, own: Attempt, settled: Settled) -> None:
        before = len(self._effects)
        super()._settle(own, settled)
        self._held += [each for each in self._effects[before:] if isinstance(each, Send)]
        del self._effects[before:]

    def _on_snapshot_kept(self, sender: str, frame: SnapshotKept) -> None:
        super()._on_snapshot_kept(sender, frame)
        held, self._held = self._held, []
        for each in held:
            if each.frame.epoch <= frame.epoch:
                self._do(each)
            else:
                self._held.append(each)

    def next_deadline(self) -> int | None:
        """An epoch begins for a snapshot too, when replies wait for it."""
        due_ns = super().next_deadline()
        if due_ns is None and self._held and self._snapshot_ns is not None and self._is_idle():
            return self._snapshot_ns + self._settings.snapshot_ns
        return due_ns

    def _is_idle(self) -> bool:
        own = self._running()
        return own is not None and own.epoch is None

    def _is_due(self, own: Attempt) -> bool:
        if super()._is_due(own):
            return True
        is_late = self._snapshot_ns is not None and self._now_ns >= self._snapshot_ns + self._settings.snapshot_ns
        return bool(self._held) and self._worker == 1 and is_late


class LocalCallsAreSent(Execution):
    """What a transaction calls on its own worker is encoded, and runs in the next round."""

    def _is_alone(self, part: Part) -> bool:
        return False

    def _wave(self, part: Part) -> None:
        part.waiting = [(sender, _carried(item)) for sender, item in part.waiting]
        super()._wave(part)


def _carried(item: Invoke | Returned) -> Invoke | Returned:
    encoded = _ENCODE(item)
    return _DECODE_INVOKE(encoded) if isinstance(item, Invoke) else _DECODE_RETURNED(encoded)


_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE_INVOKE = msgspec.msgpack.Decoder(Invoke).decode
_DECODE_RETURNED = msgspec.msgpack.Decoder(Returned).decode


def one_by_one(frame: Any) -> list[bytes]:
    """Returns a round in as many frames as it has calls, results and shares."""
    if not isinstance(frame, Round) or not isinstance(frame.body, Wave):
        return packed(frame)
    body = frame.body
    rest = msgspec.structs.replace(body, calls=[], returns=[], shares=[])
    pieces = [rest]
    for name in ("calls", "returns", "shares"):
        pieces += [msgspec.structs.replace(rest, **{name: [each]}) for each in getattr(body, name)]
    return [part for piece in pieces for part in packed(msgspec.structs.replace(frame, body=piece))]


def _without(workload: Workload, workers: int) -> dict[str, Callable[[], InProcess]]:
    """Returns the services to compare, by what they are left without."""
    settings = Settings(snapshot_ns=SNAPSHOT_NS)

    def made(settings: Settings = settings, **kwargs: Any) -> Callable[[], InProcess]:
        return lambda: InProcess(workload.entities, workers, settings, **kwargs)

    return {
        ALL: made(),
        "fallback": made(Settings(snapshot_ns=SNAPSHOT_NS, fallback=False)),
        "early_replies": made(worker=RepliesAfterSnapshots),
        "batching": made(pack=one_by_one),
        "local_calls": made(parts=WorkerParts(in_epoch=EpochParts(execution=LocalCallsAreSent))),
        "reordering": made(Settings(snapshot_ns=SNAPSHOT_NS, reordering=False)),
    }


@dataclass(frozen=True)
class Variant:
    """One service: transactions per CPU-second of the workers, frames that they sent for each, and how long calls
    waited in virtual time, in which a turn of all machines is 0.1 ms."""

    match: bool
    per_cpu_s: float
    frames_per_transaction: float
    wait_ms_p50: float
    wait_ms_p99: float


@dataclass(frozen=True)
class Ablation:
    """`variants` are named by what they are left without; `brings` is the whole's rate over theirs."""

    workload: str
    match: bool
    variants: dict[str, Variant]
    brings: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def ablate(workload: Workload, workers: int, calls: int, seed: int = 1) -> Ablation:
    """Run so many calls on each service. They take turns, so that all have the same share of a noisy machine."""
    runs = {name: Run(make(), workload, seed) for name, make in _without(workload, workers).items()}
    services: dict[str, Any] = {name: run.service for name, run in runs.items()}
    began = {name: (service.workers_cpu_s, service.frames_sent) for name, service in services.items()}
    with calm_garbage_collector():
        for _ in range(ROUNDS):
            for run in runs.values():
                run.more(calls // ROUNDS)
    variants = {name: _variant(run, services[name], *began[name]) for name, run in runs.items()}
    whole = variants[ALL].per_cpu_s
    brings = {name: round(whole / each.per_cpu_s, 2) for name, each in variants.items() if name != ALL}
    return Ablation(workload.name, all(each.match for each in variants.values()), variants, brings)


def _variant(run: Run, service: InProcess, cpu_s: float, frames: int) -> Variant:
    measured = len(service.waits_ns) - sum(1 for _ in run.workload.load())
    waits = percentiles([wait_ns / 1e6 for wait_ns in service.waits_ns[-measured:]])
    return Variant(
        not run.problems(),
        round(measured / (service.workers_cpu_s - cpu_s), 1),
        round((service.frames_sent - frames) / measured, 2),
        waits["p50"],
        waits["p99"],
    )
