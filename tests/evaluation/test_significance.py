"""Significance: by hand, and by how often a true zero is missed."""

import numpy as np
import polars as pl
import pytest

from timeplex.errors import InputError
from timeplex.evaluation.report import bootstrap, compare, compare_tables, reciprocal_ranks


def test_the_t_test_by_hand() -> None:
    """Differences 1, 2, 3: mean 2, standard deviation 1, t = 2 / (1 / √3) = 3.4641 with 2 degrees: p = 0.0742."""
    found = compare(np.array([0.0, 0.0, 0.0]), np.array([1.0, 2.0, 3.0]))
    assert (found.facts, found.first, found.second, found.difference) == (3, 0.0, 2.0, 2.0)
    assert found.p == pytest.approx(0.0742, abs=1e-4)
    assert 1.0 <= found.low < 2.0 < found.high <= 3.0


def test_what_does_not_differ_is_not_significant() -> None:
    same = np.array([0.1, 0.5, 1.0])
    found = compare(same, same)
    assert (found.difference, found.low, found.high, found.p) == (0.0, 0.0, 0.0, 1.0)
    assert compare(np.empty(0), np.empty(0)).p == 1.0
    assert compare(np.zeros(5), np.ones(5)).p == 0.0  # a difference without any spread


def test_direction() -> None:
    worse, better = np.array([0.1, 0.2, 0.3, 0.2]), np.array([0.4, 0.6, 0.5, 0.5])
    forth, back = compare(worse, better), compare(better, worse)
    assert forth.low > 0 > back.high
    assert forth.p == back.p
    assert forth.difference == -back.difference


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    """95 of 100 intervals of means of 60 draws should hold the true mean; 84 or fewer would be one chance in 20,000."""
    generator = np.random.default_rng(1)
    covered = 0
    for trial in range(100):
        low, high = bootstrap(generator.exponential(1.0, 60) - 1.0, trial)
        covered += low <= 0 <= high
    assert 84 < covered < 100


def test_the_interval_is_that_of_the_normal_distribution_for_many_facts() -> None:
    values = np.random.default_rng(2).normal(3.0, 2.0, 20_000)
    low, high = bootstrap(values)
    error = 1.96 * values.std() / np.sqrt(len(values))
    assert low == pytest.approx(values.mean() - error, abs=0.1 * error)
    assert high == pytest.approx(values.mean() + error, abs=0.1 * error)


def table(ranks: list[list[float]]) -> pl.DataFrame:
    rows = [(fact, f"r{fact % 2}", rank) for fact, both in enumerate(ranks) for rank in both]
    return pl.DataFrame(rows, ["fact", "relation", "rank_none"], orient="row")


def test_facts_are_the_unit() -> None:
    values = reciprocal_ranks(table([[1.0, 2.0], [4.0, 4.0], [1.0, 1.0]]), "rank_none")
    assert values["value"].to_list() == [0.75, 0.25, 1.0]
    found = compare_tables(values, reciprocal_ranks(table([[1.0, 1.0], [4.0, 4.0], [2.0, 2.0]]), "rank_none"), True)
    assert {name: (each.facts, each.difference) for name, each in found.items()} == {
        "all": (3, pytest.approx(-0.25 / 3)),
        "r0": (2, -0.125),
        "r1": (1, 0.0),
    }


def test_other_queries_are_refused() -> None:
    two, three = (reciprocal_ranks(table([[1.0, 1.0]] * n), "rank_none") for n in (2, 3))
    with pytest.raises(InputError, match="same queries"):
        compare_tables(two, three, by_relation=False)
