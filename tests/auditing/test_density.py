"""Habits, densities and counts by group, against slow literal versions."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.auditing import oracle

from timeplex.auditing import evidence
from timeplex.auditing.evidence import cauchy, density, habits, nearer, numbered, sort_by

grouped = st.lists(st.tuples(st.integers(0, 3), st.integers(-9, 40)), max_size=60)


def columns(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


@given(grouped)
def test_density_is_that_of_the_densest_window(pairs: list[tuple[int, int]]) -> None:
    group, value = columns(pairs)
    assert density(group, value) == pytest.approx(oracle.density(group.tolist(), value.tolist()))


@given(grouped, st.randoms(use_true_random=False), st.integers(1, 9))
def test_density_does_not_depend_on_the_order_of_equal_values(
    pairs: list[tuple[int, int]], random: Random, size: int
) -> None:
    """Processors sort equal keys in different orders; and the audit found 446, 448 or 449 things in YAGO11k."""
    group, value = columns(pairs)
    mixed = np.array(random.sample(range(len(pairs)), len(pairs)), np.int64)
    order = mixed[np.lexsort((value[mixed], group[mixed]))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence, "BLOCK", size)
        ours = density(group, value, order)
    assert ours.tolist() == density(group, value).tolist()


def test_density_by_hand() -> None:
    # Nine values from 0 to 8 and one at 100: five in a window; the stranger is nearly alone.
    value = np.array([*range(9), 100])
    ours = density(np.zeros(10, np.int64), value)
    assert ours[4] == pytest.approx(4 / (10 * 5))
    # Nine tenths (from the first to the tenth of ten) take 101 instants, which is more than its window.
    assert ours[9] == pytest.approx(4 / (10 * 96))
    far = density(np.zeros(22, np.int64), np.array([*range(20), 20, 1000]))
    assert far[21] == pytest.approx(4 / (22 * 984) * 20 / 984)


def test_ties_count_in_full() -> None:
    ours = density(np.zeros(50, np.int64), np.zeros(50, np.int64))
    assert ours == pytest.approx(np.full(50, 49 / 50))


@given(grouped)
def test_nearer_counts_smaller_distances(pairs: list[tuple[int, int]]) -> None:
    group, value = columns(pairs)
    assert nearer(group, value).tolist() == oracle.nearer(group.tolist(), value.tolist())


@given(grouped)
def test_habits_are_quantiles(pairs: list[tuple[int, int]]) -> None:
    group, value = columns(pairs)
    of = habits(group, value, 5)
    for number in range(5):
        mine = np.sort(value[group == number])
        assert of.size[number] == len(mine)
        if len(mine):
            expected = [mine[round(share * (len(mine) - 1))] for share in (0.05, 0.5, 0.95)]
            assert [of.low[number], of.median[number], of.high[number]] == expected
        else:
            assert of.low[number] == of.median[number] == of.high[number] == 0


def test_one_outlier_does_not_shape_the_habit() -> None:
    value = np.array([*([10] * 10), *([12] * 10), 500])
    of = habits(np.zeros(21, np.int64), value, 1)
    assert (of.low[0], of.high[0]) == (10, 12)
    assert of.spread[0] == pytest.approx(2 / 3.29)


@given(grouped, st.booleans())
def test_sort_by(pairs: list[tuple[int, int]], large: bool) -> None:
    group, value = columns(pairs)
    value = value * ((1 << 58) if large else 1)  # then no single key has room for both
    order = sort_by(group, value)
    assert sorted(order.tolist()) == list(range(len(pairs)))
    ours = list(zip(group[order].tolist(), value[order].tolist(), order.tolist(), strict=True))
    assert ours == sorted(ours)


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 3), st.integers(0, 2**32 - 1))))
def test_numbered(table: list[tuple[int, int, int]]) -> None:
    array = np.array(table, np.int64).reshape(-1, 3)
    number, size = numbered(*array.T)
    places = {row: place for place, row in enumerate(sorted(set(table)))}
    assert (number.tolist(), size) == ([places[row] for row in table], len(places))
    assert numbered(array[:, 0])[1] == len({row[0] for row in table})


def test_wrong_dates_are_everywhere() -> None:
    value = np.arange(-200_000, 200_001)
    assert cauchy(value, np.array([7]), np.array([50.0])).sum() == pytest.approx(1, abs=1e-3)
    assert cauchy(np.array([57]), np.array([7]), np.array([50.0]))[0] == pytest.approx(1 / (np.pi * 50 * 2))
