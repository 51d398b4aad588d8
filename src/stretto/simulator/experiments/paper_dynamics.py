"""Figures 6, 8, 9, 10 and 16 of elasticutor.txt: shuffled keys, data intensity, state size, skew, parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stretto.simulator.experiments.executors import CORES_PER_NODE
from stretto.simulator.experiments.paper_figures import (
    ALL,
    ELASTIC,
    NAIVE,
    OUR_LEVER,
    RESOURCE_CENTRIC,
    STATIC,
    Approach,
    Compared,
    Done,
    PaperFigure,
    PaperScale,
    paced,
    run,
    side_by_side,
)

SHUFFLES = (0.0, 2.0, 16.0)
INTENSITIES = ((1.0, 128), (1.0, 8192), (0.1, 128), (0.1, 8192))
"""Milliseconds and bytes of a tuple."""
SHARD_BYTES = (32 * 1024, 1024 * 1024, 32 * 1024 * 1024)
SKEWS = (0.0, 0.5, 0.7, 0.9)
EQUAL = 0.97
"""Throughputs that differ by less are equal: which keys meet in a partition matters as much."""
MARGINAL = 0.8
"""A loss of throughput to this share is marginal."""
ORDER = 10
"""An order of magnitude."""


def figure_6(scale: PaperScale, done: Done) -> PaperFigure:
    """Keys are shuffled more and more often: throughput with as much input as is taken, latency with a given one."""
    ours: dict[str, Any] = {}
    fulls, givens = dict[float, Compared](), dict[float, Compared]()
    for omega in SHUFFLES:
        setting = scale.setting(shuffles_per_minute=omega)
        full = fulls[omega] = side_by_side(scale, setting, done)
        input_rate = paced(full, setting)
        given = givens[omega] = side_by_side(scale, input_rate, done)
        ours[f"omega {omega:g}"] = {"full input": full.summary(), f"input {input_rate.load:g}": given.summary()}
    ours["throughput_by_static"] = {_named(omega): _by(full, STATIC) for omega, full in fulls.items()}
    ours["throughput_by_resource_centric"] = {
        _named(omega): _by(full, RESOURCE_CENTRIC) for omega, full in fulls.items()
    }
    sooner = {omega: _sooner(given, STATIC) for omega, given in givens.items()}
    than_dealt = {omega: _sooner(given, RESOURCE_CENTRIC) for omega, given in givens.items()}
    ours["latency_of_static_by_ours"] = {_named(omega): round(factor, 1) for omega, factor in sooner.items()}
    ours["latency_of_resource_centric_by_ours"] = {
        _named(omega): round(factor, 1) for omega, factor in than_dealt.items()
    }
    kept = {each.name: fulls[16.0].rate(each) / fulls[0.0].rate(each) for each in ALL}
    ours["kept_at_16"] = {name: round(share, 3) for name, share in kept.items()}
    moving = [fulls[omega] for omega in SHUFFLES if omega]
    claims = {
        "elastic has more throughput than static, whatever omega": all(
            full.rate(ELASTIC) > full.rate(STATIC) for full in fulls.values()
        ),
        "its latency is an order of magnitude below static's": min(sooner.values()) >= ORDER,
        "it loses little when omega is 16": kept["elastic"] > MARGINAL,
        "it has more throughput than resource-centric where keys are shuffled": all(
            full.rate(ELASTIC) > EQUAL * full.rate(RESOURCE_CENTRIC) for full in moving
        ),
        "and a lower latency": all(than_dealt[omega] > 1 for omega in SHUFFLES if omega),
        "resource-centric loses more than elastic when omega is 16": kept["resource_centric"] < kept["elastic"],
    }
    paper = {
        "elastic": "about twice static's throughput for every omega above 0, latency 1 to 2 orders of magnitude lower; "
        "degradation at 16 marginal",
        "resource_centric": "degrades by 2 to 3 orders of magnitude more, useless at 16",
    }
    note = (
        "Throughput is that of full input. Latency is compared at an input that is a tenth more than static partitions "
        "take, from when a row was due. The most frequent key runs on one core at a time, which bounds every approach "
        f"at the paper's size to 0.78 of the cores. {OUR_LEVER}: so it is not useless at an omega of 16. On two "
        "nodes it is as good as elastic executors: the fullest of 16 queues is soon empty, that of 64 and more is not."
    )
    return PaperFigure("Throughput and latency by shuffles", ours, paper, claims, note)


def figure_8(scale: PaperScale, done: Done) -> PaperFigure:
    """More bytes per second and core."""
    ours: dict[str, Any] = {}
    found = dict[tuple[float, int], Compared]()
    for tuple_ms, tuple_bytes in INTENSITIES:
        rows = round(16 / tuple_ms)
        setting = scale.setting(tuple_ms=tuple_ms, tuple_bytes=tuple_bytes, rows_per_core=rows)
        found[tuple_ms, tuple_bytes] = side_by_side(scale, setting, done)
        ours[f"{tuple_ms:g} ms, {tuple_bytes} B"] = found[tuple_ms, tuple_bytes].summary()
    light, heavy = found[INTENSITIES[0]], found[INTENSITIES[-1]]
    kept = {each.name: heavy.of(each).utilisation / light.of(each).utilisation for each in ALL}
    ours["of_throughput_at_most_intensity"] = {name: round(share, 3) for name, share in kept.items()}
    paper = {"all": "throughput drops with intensity; elastic is more sensitive, since its rows travel twice"}
    claims = {
        "elastic loses with intensity": kept["elastic"] < 1,
        "it loses at least as much as static": kept["elastic"] <= kept["static"],
        "it loses at least as much as resource-centric": kept["elastic"] <= kept["resource_centric"],
    }
    note = (
        "0.01 ms per tuple is left out: too many rows to simulate. The generators are outside the cluster, so what "
        "comes from them occupies the links of the nodes that receive it."
    )
    return PaperFigure("Computation costs and tuple sizes", ours, paper, claims, note)


def figure_9(scale: PaperScale, done: Done) -> PaperFigure:
    """Larger and larger states."""
    fixed = run(scale, STATIC, scale.setting(), done)
    moving = (RESOURCE_CENTRIC, NAIVE, ELASTIC)
    found = {size: side_by_side(scale, scale.setting(shard_bytes=size), done, moving) for size in SHARD_BYTES}
    ours: dict[str, Any] = {f"{size // 1024} KB per shard": each.summary() for size, each in found.items()}
    ours["static"] = fixed.summary()
    smallest, largest = found[SHARD_BYTES[0]], found[SHARD_BYTES[-1]]
    paper = {
        "elastic and resource_centric": "drop as state grows; below static at 32 MB per shard",
        "elastic": "better than resource-centric at every size",
    }
    claims = {
        "elastic drops as state grows": largest.rate(ELASTIC) < smallest.rate(ELASTIC),
        "resource-centric drops as state grows": largest.rate(RESOURCE_CENTRIC) < smallest.rate(RESOURCE_CENTRIC),
        "elastic is better than resource-centric at every size": all(
            each.rate(ELASTIC) > EQUAL * each.rate(RESOURCE_CENTRIC) for each in found.values()
        ),
        "resource-centric is below static at 32 MB": largest.rate(RESOURCE_CENTRIC) < fixed.tuples_per_s,
        "elastic is below static at 32 MB": largest.rate(ELASTIC) < fixed.tuples_per_s,
    }
    note = (
        "An elastic executor of ours moves what the balance needs and no more, mostly within its node, and other "
        "shards go on meanwhile: with 32 MB per shard it need not fall below static. At a handover each former "
        "partition sends all its state to each node that gets some of its keys."
    )
    return PaperFigure("State sizes", ours, paper, claims, note)


def figure_10(scale: PaperScale, done: Done) -> PaperFigure:
    """Keys that are more and more skewed."""
    found = {skew: side_by_side(scale, scale.setting(skew=skew), done) for skew in SKEWS}
    ours: dict[str, Any] = {f"alpha {skew:g}": each.summary() for skew, each in found.items()}
    half, most = found[0.5], found[0.9]
    paper = {"elastic": "holds up to 0.5, drops sharply from 0.6 on; worse than resource-centric from 0.7 on"}
    claims = {
        "elastic beats static up to 0.5": half.rate(ELASTIC) > half.rate(STATIC),
        "it is as good as resource-centric or better up to 0.5": half.rate(ELASTIC)
        > EQUAL * half.rate(RESOURCE_CENTRIC),
        "it drops sharply at 0.9": most.rate(ELASTIC) < MARGINAL * half.rate(ELASTIC),
        "it is worse than resource-centric from 0.7 on": all(
            found[skew].rate(ELASTIC) < found[skew].rate(RESOURCE_CENTRIC) for skew in SKEWS if skew >= 0.7
        ),
    }
    note = (
        "Of a key's rows no two run at once, so the most frequent key bounds every approach from 0.7 on, and what is "
        "left between elastic and resource-centric is small either way: rows of 128 bytes do not fill the link of a "
        "home here, which is what held the paper's elastic executors back."
    )
    return PaperFigure("Skewed keys", ours, paper, claims, note)


def figure_16(scale: PaperScale, done: Done) -> PaperFigure:
    """The number of executors."""
    counts = (1, scale.nodes, scale.nodes * CORES_PER_NODE)
    workloads: dict[str, dict[str, Any]] = {
        "default": {},
        "data-intensive": {"tuple_bytes": 8192},
        "dynamic": {"shuffles_per_minute": 16.0},
    }
    ours: dict[str, Any] = {}
    claims = {}
    for name, more in workloads.items():
        setting = scale.setting(**more)
        found = {}
        for count in counts:
            found[f"y {count}"] = scale.run(replace(ELASTIC.of(setting), executors=count), done).tuples_per_s
        claims[f"one executor per node is robust: {name}"] = found[f"y {scale.nodes}"] >= 0.9 * max(found.values())
        others = (STATIC, RESOURCE_CENTRIC, NAIVE)
        found.update({each.name: run(scale, each, setting, done).tuples_per_s for each in others})
        ours[name] = {key: round(rate) for key, rate in found.items()}
    paper = {"y": "one or two executors per node are robust; 1 is poor where data-intensive or dynamic, 256 is static"}
    note = "The number of shards per executor is fixed at 256 in the machines, so z is not varied."
    return PaperFigure("Number of executors", ours, paper, claims, note)


def _named(omega: float) -> str:
    return f"{omega:g}"


def _by(found: Compared, other: Approach) -> float:
    """Returns the throughput of elastic executors by another approach's."""
    return round(found.rate(ELASTIC) / found.rate(other), 2)


def _sooner(found: Compared, other: Approach) -> float:
    """Returns the mean latency of another approach by that of elastic executors."""
    return found.of(other).mean_ms / max(0.1, found.of(ELASTIC).mean_ms)


RUNS_6 = 2 * len(SHUFFLES) * len(ALL)
RUNS_8 = len(INTENSITIES) * len(ALL)
RUNS_9 = 1 + 3 * len(SHARD_BYTES)
RUNS_10 = len(SKEWS) * len(ALL)
RUNS_16 = 18
