"""The other end of a span, and open ends, on examples that can be computed by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import facts_of

from timeplex.answers.durations import MOST, PRIOR, DurationModel, OpenEnds
from timeplex.kb import spans
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import Facts
from timeplex.kb.timeline import Timeline

OPEN = spans.OPEN_END
YEARS = Timeline.of(range(2000, 2021), Granularity.YEAR, "calendar")


def facts(rows: list[tuple[int, int, int]]) -> Facts:
    """(r, begin, end)."""
    return facts_of((0, r, 0, begin, end) for r, begin, end in rows)


def flat(rows: int) -> np.ndarray:  # type: ignore[type-arg]
    return np.full((rows, len(YEARS)), 1 / len(YEARS))


FOUR_AND_TEN = facts([(0, 2000, 2003)] * 6 + [(0, 2000, 2009)] * 3 + [(1, 2001, 2001)] * 2 + [(1, 2001, OPEN)])


def test_durations_and_how_many_facts_they_are_from() -> None:
    lengths = DurationModel.fit(FOUR_AND_TEN, 3)
    assert lengths.durations.tolist() == [1, 4, 10]
    overall = np.array([2, 6, 3]) / 11
    np.testing.assert_allclose(lengths.share[0], (np.array([0, 6, 3]) + overall) / 10)
    np.testing.assert_allclose(lengths.share[2], overall)
    assert lengths.facts.tolist() == [9, 2, 0]
    assert [lengths.median(r) for r in range(3)] == [4, 1, 4]


def test_an_end_is_the_usual_duration_away_and_stays_on_the_timeline() -> None:
    lengths = DurationModel.fit(FOUR_AND_TEN, 2)
    begin, r = np.array([2002, 2002, 2016, 2020, 2018]), np.array([0, 1, 0, 0, 0])
    end, likely = lengths.other_end("end", begin, r, flat(5), YEARS)
    assert end.tolist() == [2005, 2002, 2019, 2020, 2018]
    assert likely[0] == pytest.approx(lengths.share[0][1], abs=1e-6)  # 1 and 10 years share less than half with 4
    assert likely[2] == pytest.approx(lengths.share[0][1] / lengths.share[0][:2].sum(), abs=1e-6)  # ten do not fit
    assert likely[3] == pytest.approx(1)


def test_a_begin_is_found_from_the_end() -> None:
    lengths = DurationModel.fit(FOUR_AND_TEN, 2)
    begin, _ = lengths.other_end("begin", np.array([2012, 2012, 2001]), np.array([0, 1, 0]), flat(3), YEARS)
    assert begin.tolist() == [2009, 2012, 2001]


def test_the_model_has_a_say() -> None:
    even = DurationModel.fit(facts([(0, 2000, 2003)] * 11 + [(0, 2000, 2009)] * 10), 1)
    late = np.zeros((1, len(YEARS)))
    late[0, 11:13] = 0.5  # 2011 and 2012
    known = np.array([2004]), np.array([0])
    assert even.other_end("end", *known, flat(1), YEARS)[0].tolist() == [2007]
    assert even.other_end("end", *known, late, YEARS)[0].tolist() == [2013]


def test_without_any_span_everything_lasts_an_instant() -> None:
    lengths = DurationModel.fit(facts([(0, 2001, OPEN)]), 1)
    assert lengths.other_end("end", np.array([2005]), np.array([0]), flat(1), YEARS)[0].tolist() == [2005]
    assert lengths.facts.tolist() == [0]


def test_very_many_durations_are_thinned_out() -> None:
    lengths = DurationModel.fit(facts([(0, 0, length) for length in range(3 * MOST)]), 1)
    assert len(lengths.durations) == MOST
    assert lengths.share.sum() == pytest.approx(1)


def test_open_ends_fall_with_age_and_lean_on_all_facts() -> None:
    rows = [(0, 2020, OPEN)] * 3 + [(0, 2010, OPEN), (0, 2010, 2012)] + [(0, 2000, 2003)] * 2 + [(1, 2010, OPEN)]
    found = OpenEnds.fit(facts(rows), 3, last=2020)
    overall = 5 / 8
    assert found.overall == overall

    def leaning(share: float, count: int) -> float:
        return (share * count + PRIOR * overall) / (count + PRIOR)

    r, begin = np.array([0, 0, 0, 0, 1, 2]), np.array([2020, 2010, 2000, 2015, 1950, 2000])
    expected = [leaning(1, 7), leaning(0.5, 7), leaning(0, 7), leaning(0.75, 7), leaning(1, 1), overall]
    np.testing.assert_allclose(found.likely(r, begin), expected)


def test_open_ends_of_no_facts() -> None:
    assert OpenEnds.fit(Facts.empty(), 1, 2020).likely(np.array([0]), np.array([2000])).tolist() == [0.0]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1990, 2020), st.booleans()), min_size=1, max_size=30))
def test_open_ends_never_rise_with_age(rows: list[tuple[int, int, bool]]) -> None:
    known = facts([(r, begin, OPEN if is_open else begin) for r, begin, is_open in rows])
    found = OpenEnds.fit(known, 3, last=2020)
    begins = np.arange(1985, 2021)
    for r in range(3):
        likely = found.likely(np.full(len(begins), r), begins)
        assert (np.diff(likely) >= -1e-12).all()
        assert ((likely >= 0) & (likely <= 1)).all()
