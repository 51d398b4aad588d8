"""The social network in the simulator: its figures at a small size. `stretto simulate social` has the thesis' size."""

from __future__ import annotations

from dataclasses import replace

from stretto.scheduling.strategies import STRATEGIES
from stretto.simulator.experiments.social.figures import FIGURES, number_of_runs, settings, social_figures
from stretto.simulator.experiments.social.runs import Stores, measured
from stretto.simulator.experiments.social.workload import Network, Setting

SMALL = Setting(workers=8, users=40, requests=480)


def test_without_regard_to_state_more_is_fetched() -> None:
    done: list[None] = []
    found = social_figures(SMALL, ["6.12"], lambda: done.append(None))
    assert len(done) == number_of_runs(["6.12"]) == 10
    without, cached = found.figures["6.12"].values()
    for strategy, each in without.items():
        assert each["fetches"] == each["reads"] > 0, strategy
        assert cached[strategy]["fetches"] < each["fetches"]
        assert cached[strategy]["p50"] < each["p50"]
    assert cached["laxity-direct"]["fetches"] > 1.5 * cached["priority"]["fetches"]
    assert found.accesses_saved["by the cache, priority"] > 2
    assert found.claims["6.12b: with a cache, all are faster"]


def test_less_capacity_is_more_fetched_and_equal_seeds_are_equal_runs() -> None:
    small = replace(SMALL, requests=320)
    least, again, most = (measured(replace(small, cached=n), STRATEGIES["priority"]) for n in (8, 8, 256))
    assert least == again
    assert least.fetches > most.fetches


def test_every_figure_has_its_settings() -> None:
    for figure in FIGURES:
        found = list(settings(figure, SMALL))
        assert len({name for name, _, _ in found}) == len(found) >= 2
        assert all(strategy in STRATEGIES for _, _, names in found for strategy in names)


def test_a_post_is_in_the_timelines_of_its_author_and_followers() -> None:
    network = Network(SMALL)
    author = max(range(SMALL.users), key=lambda user: len(network.followers[user]))
    post, own, *homes = network.writes(author)
    assert own == f"user:{author}"
    assert homes == [f"home:{each}" for each in network.followers[author]]
    assert post in network.reads("read_user", author)
    assert all(post in network.reads("read_home", each) for each in network.followers[author])


def test_a_store_fetches_what_it_has_not() -> None:
    none, two = Stores(0), Stores(2)
    assert [none.read("w", name) for name in "aa"] == [True, True]
    assert [two.read("w", name) for name in "abacab"] == [True, True, False, True, False, True]
