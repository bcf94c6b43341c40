"""What patterns say of years, against plain loops that follow their docstrings, on tiny KBs by year, month and day."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.patterns import year_oracle as oracle
from tests.patterns.small_evidence import ENTITIES, evidence, evidence_of, instants_of, queries

from timeplex.kb.dates import Granularity
from timeplex.kb.facts import pair_key
from timeplex.patterns import dating, densities
from timeplex.patterns.base import PATTERNS, SIDES, Evidence, TimeQueries
from timeplex.patterns.durations import Durations
from timeplex.patterns.gaps import habit

GRANULARITIES = [Granularity.YEAR, Granularity.MONTH, Granularity.DAY]
MOST_INSTANTS = 12
"""So many instants of an axis are compared: loops are slow."""


# --- densities -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_buckets(granularity: Granularity) -> None:
    found, expected = densities.buckets(granularity), oracle.Buckets(granularity)
    assert found.reach == expected.reach
    assert found.width.tolist() == expected.width
    gaps = [*range(-expected.reach, expected.reach + 1), -(10**6), 10**6]
    assert found(np.array(gaps)).tolist() == [expected(gap) for gap in gaps]


def test_a_habit_is_of_one_gap_alone() -> None:
    """By day, 305 and 312 days lie in one bucket: neither has all the cases of both."""
    of = densities.buckets(Granularity.DAY)
    seen = np.zeros(len(of.width), np.int64)
    np.add.at(seen, of(np.array([1, 1, 1, 305, 312])), 1)
    assert (habit(seen, of, 1).holds, habit(seen, of, 1).cases) == (3, 5)
    assert habit(seen, of, 305).holds == 0
    assert habit(seen, of, 305).low == 1
    assert habit(seen, of, 305).high <= 305


@given(
    counts=st.lists(st.lists(st.floats(0, 50), min_size=7, max_size=7), min_size=1, max_size=4),
    width=st.lists(st.integers(1, 9), min_size=7, max_size=7),
    block=st.integers(1, 3),
)
def test_densities(counts: list[list[float]], width: list[int], block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(densities, "BLOCK", block)
        found = densities.smoothed(np.array(counts), np.array(width, float))
    expected = [[oracle.density(dict(enumerate(row)), at, width) for at in range(7)] for row in counts]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_density_is_one() -> None:
    """Σ p = 1 but for what the kernels spread beyond the edges."""
    counts = np.zeros((1, 601))
    counts[0, 300] = 40
    assert abs(float(np.exp(densities.smoothed(counts, np.ones(601))).mean()) - 1) < 1e-5


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_spikes_are_the_densest_single_gaps(granularity: Granularity) -> None:
    of = densities.buckets(granularity)
    counts = np.zeros((2, len(of.width)))
    wanted = [-30, 0, 7, 12, 99, -299]
    for more, gap in enumerate(wanted):
        counts[1, of(np.array([gap]))] = 500 + 10 * more
    found = densities.spikes(densities.smoothed(counts, of.width), of)
    assert found.shape == (2, densities.SPIKES)
    assert found[1].tolist() == wanted[::-1]
    assert (of.width[of(found)] == 1).all()


# --- other facts of a key ------------------------------------------------------------------------------


@given(data=st.data(), most=st.integers(1, 5))
def test_other_rows_of_a_key(data: st.DataObject, most: int) -> None:
    of = data.draw(evidence())
    keys = pair_key(of.x, of.r)
    asked = data.draw(st.lists(st.sampled_from([*keys.tolist(), 10**15]), max_size=4))
    own = data.draw(st.lists(st.integers(-1, len(of) - 1), min_size=len(asked), max_size=len(asked)))
    index = of.rows_by(keys)
    place, row = index.others(np.array(asked, np.int64), np.array(own, np.int64), most)
    dated = sorted(range(2 * len(of)), key=lambda at: (of.begin[at], of.end[at], of.r[at], of.x[at], of.y[at], at))
    expected = []
    for at, (key, mine) in enumerate(zip(asked, own, strict=True)):
        rows = [each for each in dated if keys[each] == key and (mine < 0 or each % len(of) != mine)]
        taken = min(most, len(rows))
        expected += [(at, rows[nth * len(rows) // taken]) for nth in range(taken)]
    assert list(zip(place.tolist(), row.tolist(), strict=True)) == expected


# --- patterns ------------------------------------------------------------------------------------------


@st.composite
def asked_of(draw: st.DrawFn) -> tuple[Evidence, TimeQueries, np.ndarray | None]:
    of = draw(evidence())
    counted = draw(st.none() | st.lists(st.booleans(), min_size=len(of), max_size=len(of)))
    return of, draw(queries(of)), None if counted is None else np.array(counted, bool)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", oracle.ORACLES)
@settings(max_examples=40)
@given(case=asked_of())
def test_years(name: str, side: str, case: tuple[Evidence, TimeQueries, np.ndarray | None]) -> None:
    of, asked, counted = case
    found = PATTERNS[name](of, counted).years(asked, side)
    rows, counting = oracle.rows_of(of), oracle.rows_of(of, counted)
    for at in range(len(asked)):
        query = (int(asked.s[at]), int(asked.r[at]), int(asked.o[at]))
        says = oracle.ORACLES[name](of, rows, counting, query, int(asked.own[at]), side)
        axis = instants_of(asked, of, at)
        some = range(0, len(axis), -(-len(axis) // MOST_INSTANTS))
        expected = np.array([says(axis[place]) for place in some]).T
        np.testing.assert_allclose(found[at][:, list(some)], expected, rtol=1e-4, atol=1e-4)


@settings(max_examples=40)
@given(case=asked_of(), data=st.data())
def test_ends(case: tuple[Evidence, TimeQueries, np.ndarray | None], data: st.DataObject) -> None:
    of, asked, counted = case
    begin = np.array([data.draw(st.lists(st.integers(1985, 2010), min_size=2, max_size=2)) for _ in range(len(asked))])
    durations = Durations(of, counted)
    found = durations.ends(asked, begin)
    rows, counting = oracle.rows_of(of), oracle.rows_of(of, counted)
    for at in range(len(asked)):
        query = (int(asked.s[at]), int(asked.r[at]), int(asked.o[at]))
        axis = instants_of(asked, of, at)
        some = range(0, len(axis), -(-len(axis) // MOST_INSTANTS))
        for nth in range(2):
            says = oracle.end_features(of, rows, counting, query, int(asked.own[at]), int(begin[at, nth]))
            expected = np.array([says(axis[place]) for place in some]).T
            np.testing.assert_allclose(found[at, nth][:, list(some)], expected, rtol=1e-4, atol=1e-4)


# --- by hand -------------------------------------------------------------------------------------------


def test_a_rhythm_goes_on_and_leaves_one_beat_free() -> None:
    """Cups of 1990, 1994, 2002, 2006 and 2010: 1998 is free, and two before and after."""
    cups = [(0, 0, 1, year, year) for year in (1990, 1994, 2002, 2006, 2010)]
    of = evidence_of([*cups, (2, 1, 3, 1970, 2030)])
    asked = TimeQueries(np.array([0]), np.array([0]), np.array([2]))
    rows = PATTERNS["slots"](of).years(asked, "begin")[0]
    assert of.axis[rows[7] == 1].tolist() == [1982, 1986, 1998, 2014, 2018]
    assert of.axis[rows[6] == 1].tolist() == list(range(1982, 2019, 4))


def test_a_mirror_says_its_own_date() -> None:
    """Twelve marriages stated from both sides, one from one side only: the other side has its year."""
    pairs = [(0, 0, 1, 1990 + at, 1990 + at) for at in range(12)]
    mirrored = [(o, r, s, begin, end) for s, r, o, begin, end in pairs]
    of = evidence_of([*pairs, *mirrored, (2, 0, 3, 1995, 1995)])
    asked = TimeQueries(np.array([3]), np.array([0]), np.array([2]))
    rows = PATTERNS["pairs"](of).years(asked, "begin")[0]
    assert of.axis[rows[1].argmax()] == 1995
    assert not rows[0].any()


@pytest.mark.parametrize("own", [-1, 0])
def test_who_has_no_other_fact_is_not_spoken_of(own: int) -> None:
    of = evidence_of([(0, 0, 1, 1990, 1995), (2, 0, 3, 1991, 1992), (2, 1, 3, 1999, 2000)])
    asked = TimeQueries(np.array([0]), np.array([0]), np.array([1]), np.array([own]))
    for name in ("gaps", "slots", "lifespans", "pairs"):
        assert bool(PATTERNS[name](of).years(asked, "begin").any()) == (own < 0) or name == "pairs"


def test_all_year_patterns_have_an_oracle() -> None:
    own = [name for name, kind in PATTERNS.items() if kind.year_features and kind.__module__.startswith("timeplex.")]
    assert sorted(own) == sorted(oracle.ORACLES)
    assert dating.Fitted.of(evidence_of([(0, 0, ENTITIES - 1, 1990, 1991)])).patterns
