"""The tuples of the micro-benchmark: Zipf's frequencies, shuffled as often as asked for."""

from __future__ import annotations

import numpy as np
import pytest

from stretto.bench.elastic.tuples import Tuples
from stretto.bench.elastic.zipf import permutation, places, zipf_weights

EVENTS = 400_000


def frequencies(tuples: Tuples, first: int, last: int) -> np.ndarray:
    return np.bincount(tuples.keys(np.arange(first, last)), minlength=tuples.key_count)


@pytest.mark.parametrize("skew", [0.0, 0.5, 1.0, 2.0])
def test_the_frequencies_of_ranks_follow_zipf(skew: float) -> None:
    tuples = Tuples(key_count=100, skew=skew, shuffles_per_minute=0.0)
    found = np.sort(frequencies(tuples, 0, EVENTS))[::-1]
    shares = np.array([rank**-skew for rank in range(1, 101)])
    expected = shares / shares.sum() * EVENTS
    # Five standard deviations of a binomial distribution, twice for the order of ranks that are nearly as frequent.
    assert (np.abs(found - expected) <= 10 * np.sqrt(expected) + 1).all()


def test_most_work_falls_into_few_keys_only_if_the_skew_is_high() -> None:
    def share_of_the_first_hundred(skew: float) -> float:
        weights = zipf_weights(10_000, skew)
        return float(weights[:100].sum() / weights.sum())

    assert share_of_the_first_hundred(0.0) == pytest.approx(0.01)
    assert share_of_the_first_hundred(0.5) == pytest.approx(0.094, abs=0.005)
    assert share_of_the_first_hundred(1.0) == pytest.approx(0.53, abs=0.01)


def test_keys_trade_places_at_each_shuffle_and_not_between() -> None:
    tuples = Tuples(rate=10_000.0, key_count=50, skew=1.0, shuffles_per_minute=12.0)
    length = 50_000  # Events between two shuffles: 5 seconds.
    assert tuples.shuffle_of(np.array([0, length - 1, length, 2 * length])).tolist() == [0, 0, 1, 2]
    halves = [frequencies(tuples, start, start + length // 2) for start in range(0, 4 * length, length // 2)]
    hottest = [int(half.argmax()) for half in halves]
    assert hottest[0::2] == hottest[1::2]
    assert len(set(hottest)) > 1
    for shuffle in range(4):
        first, second = halves[2 * shuffle : 2 * shuffle + 2]
        assert np.corrcoef(first, second)[0, 1] > 0.98
    for before, after in zip(halves[1:-1:2], halves[2::2], strict=True):
        assert abs(np.corrcoef(before, after)[0, 1]) < 0.5


def test_without_shuffles_keys_keep_their_places() -> None:
    tuples = Tuples(rate=100.0, key_count=50, skew=1.0, shuffles_per_minute=0.0)
    first, second = frequencies(tuples, 0, 50_000), frequencies(tuples, 10**8, 10**8 + 50_000)
    assert np.corrcoef(first, second)[0, 1] > 0.98


def test_seeds_give_different_tuples_and_a_seed_the_same() -> None:
    numbers = np.arange(5_000)
    one, same, other = (Tuples(seed=seed).rows(numbers) for seed in (1, 1, 2))
    assert one.equals(same)
    assert np.mean(one.column("key").to_numpy() == other.column("key").to_numpy()) < 0.01
    assert one.column("payload").to_pylist() != other.column("payload").to_pylist()


@pytest.mark.parametrize("size", [0, 1, 8, 13, 128, 8192])
def test_payloads_have_their_size_and_depend_on_the_number_alone(size: int) -> None:
    tuples = Tuples(payload_bytes=size)
    rows = tuples.rows(np.arange(20))
    rows.validate(full=True)
    payloads = rows.column("payload").to_pylist()
    assert {len(payload) for payload in payloads} == {size}
    assert tuples.rows(np.array([13])).column("payload").to_pylist() == payloads[13:14]
    if size >= 8:
        assert len(set(payloads)) == 20


def test_a_permutation_has_each_key_once_and_differs_by_number() -> None:
    found = [permutation(1, number, 100).tolist() for number in range(3)]
    assert all(sorted(each) == list(range(100)) for each in found)
    assert found[0] != found[1] != found[2]


def test_places_follow_their_weights_exactly() -> None:
    """Every draw of 32 bits, in steps that meet each weight as often as its share says."""
    weights = np.array([1, 0, 5, 2])
    draws = np.arange(8, dtype=np.uint64) * np.uint64(2**29)
    assert np.bincount(places(draws, weights), minlength=4).tolist() == [1, 0, 5, 2]
