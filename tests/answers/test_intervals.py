"""Intervals for the begin: the distribution of begins by a literal sum, and coverage where the truth is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timeplex.answers import when
from timeplex.answers.when import SHAPES, Begins, Shape, conformal_level, holds, interval, needed
from timeplex.evaluation.time_prediction import GreedySpan


@settings(max_examples=50)
@given(
    st.lists(st.integers(1900, 1930), min_size=1, max_size=8, unique=True).map(sorted),
    st.lists(st.integers(1, 9), min_size=4, max_size=4),
    st.integers(0, 1000),
    st.sampled_from([1, 40, 10**6]),
)
def test_begins_are_those_of_the_formula(years: list[int], levels: list[int], seed: int, cells: int) -> None:
    instants = np.array(years)
    rng = np.random.default_rng(seed)
    probability = rng.dirichlet(np.ones(len(years)), 5)
    r = rng.integers(0, 2, 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(when, "CELLS", cells)
        found = Begins(np.array([levels[:2], levels[2:]]), instants).probabilities(probability, r)
    assert found.sum(1) == pytest.approx(1.0)
    for row in range(5):
        expected = np.zeros(len(years))
        for d in levels[:2] if r[row] == 0 else levels[2:]:
            for t, year in enumerate(years):
                begins = [b for b, begin in enumerate(years) if year - d < begin <= year]
                for b in begins:
                    expected[b] += probability[row, t] / 2 / len(begins)
        assert found[row] == pytest.approx(expected)


@settings(max_examples=60)
@given(st.sampled_from(SHAPES), st.integers(0, 10**6), st.integers(1, 9))
def test_the_needed_level_is_just_enough(shape: Shape, seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    begins = rng.dirichlet(np.full(count, 0.5), 6)
    position = rng.integers(0, count, 6)
    level = needed(shape, begins, position)
    assert (level >= 0).all()
    assert (level <= 1).all()
    assert holds(interval(shape, level, begins), position).all()
    less = level - 1e-6
    clear = less > 0
    assert not holds(interval(shape, less, begins), position)[clear].any()
    wide, narrow = interval(shape, 0.9, begins), interval(shape, 0.4, begins)
    assert (wide[0] <= narrow[0]).all()
    assert (wide[1] >= narrow[1]).all()
    assert (interval(shape, 0.0, begins)[0] <= interval(shape, 0.0, begins)[1]).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_coverage_is_kept_however_wrong_the_model_is(shape: Shape) -> None:
    """Models that are too sure, too vague, or beside the truth: 80 % of new begins are held all the same."""
    rng = np.random.default_rng(0)
    for sharpness, shift in ((0.3, 0), (4.0, 0), (1.0, 6)):
        centre = rng.integers(15, 45, 4000)
        truth = np.clip(np.round(centre + shift + rng.normal(0, 4, 4000)), 0, 59).astype(np.int64)
        begins = np.exp(-0.5 * ((np.arange(60) - centre[:, None]) / (4 * sharpness)) ** 2)
        begins /= begins.sum(1, keepdims=True)
        level = conformal_level(needed(shape, begins[:2000], truth[:2000]))
        share = holds(interval(shape, level, begins[2000:]), truth[2000:]).mean()
        assert 0.77 < share < 0.84


def test_the_level_of_few_cases() -> None:
    levels = np.array([0.4, 0.1, 0.3, 0.2, 0.9, 0.5, 0.6, 0.7, 0.8])
    assert conformal_level(levels) == 0.8  # the eighth of nine: ⌈10 · 0.8⌉
    assert conformal_level(levels, 0.5) == 0.5
    assert conformal_level(np.array([0.1, 0.2])) == 1.0
    assert conformal_level(np.empty(0)) == 1.0


def test_growth_by_hand() -> None:
    table = np.array([[0.1, 0.2, 0.4, 0.2, 0.1]])
    assert GreedySpan(table, np.array([[2]])).until_holding(np.array([2])).tolist() == [0.0]
    growth = GreedySpan(table, np.array([[2]]))  # right first if both have the same
    assert growth.until_holding(np.array([3])) == pytest.approx([0.4])
    assert (growth.first[0], growth.last[0]) == (2, 3)
    assert growth.until_holding(np.array([0])) == pytest.approx([0.9])
    assert (growth.first[0], growth.last[0]) == (0, 4)
    grown = interval("grown", 0.65, table)
    assert (grown[0][0], grown[1][0]) == (1, 3)
    central = interval("central", 0.5, table)
    assert (central[0][0], central[1][0]) == (1, 3)
