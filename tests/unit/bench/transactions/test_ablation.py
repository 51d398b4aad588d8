"""Parts of the protocol that are left out: everything is right without them, and what they bring is seen."""

from __future__ import annotations

import pytest

from stretto.bench.transactions.ablation import ALL, SNAPSHOT_NS, Ablation, ablate
from stretto.bench.transactions.ycsb_t import YcsbT


@pytest.fixture(scope="module")
def ablation() -> Ablation:
    return ablate(YcsbT(300, skew=0.99), 2, 900)


def test_all_variants_are_right(ablation: Ablation) -> None:
    assert ablation.match
    assert all(each.match for each in ablation.variants.values())
    assert ablation.brings.keys() == ablation.variants.keys() - {ALL}


def test_without_the_fallback_losers_wait_for_many_epochs(ablation: Ablation) -> None:
    assert ablation.variants["fallback"].wait_ms_p99 > 2 * ablation.variants[ALL].wait_ms_p99


def test_without_early_replies_calls_wait_for_a_snapshot(ablation: Ablation) -> None:
    assert ablation.variants["early_replies"].wait_ms_p50 > SNAPSHOT_NS / 1e6 / 2
    assert ablation.variants[ALL].wait_ms_p99 < SNAPSHOT_NS / 1e6 / 5


def test_without_batching_there_are_more_frames(ablation: Ablation) -> None:
    whole, without = ablation.variants[ALL], ablation.variants["batching"]
    assert without.frames_per_transaction > whole.frames_per_transaction + 0.5
    assert without.wait_ms_p99 == whole.wait_ms_p99


def test_without_local_calls_there_are_more_rounds(ablation: Ablation) -> None:
    assert ablation.variants["local_calls"].frames_per_transaction > ablation.variants[ALL].frames_per_transaction
    assert ablation.variants["local_calls"].wait_ms_p50 > ablation.variants[ALL].wait_ms_p50
