"""Timelines against plain Python lists of instants."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kb.random_kbs import kb_of

from timeplex.errors import InputError
from timeplex.kb.dates import Granularity
from timeplex.kb.spans import OPEN_BEGIN, OPEN_END
from timeplex.kb.timeline import Kind, Timeline

KINDS = st.sampled_from(["observed", "calendar"])
INSTANTS = st.lists(st.integers(-20, 20) | st.sampled_from([OPEN_BEGIN, OPEN_END]), max_size=12)


def plain(instants: list[int], kind: Kind) -> list[int]:
    """The instants of a timeline, by its definition."""
    known = {instant for instant in instants if instant not in (OPEN_BEGIN, OPEN_END)}
    if kind == "observed" or not known:
        return sorted(known)
    return list(range(min(known), max(known) + 1))


def timeline_of(instants: list[int], kind: Kind = "observed") -> Timeline:
    return Timeline.of(instants, Granularity.YEAR, kind)


@given(INSTANTS, KINDS)
def test_observed_has_what_occurs_and_calendar_all_between(instants: list[int], kind: Kind) -> None:
    timeline = timeline_of(instants, kind)
    expected = plain(instants, kind)
    assert timeline.instants.tolist() == expected
    assert len(timeline) == len(expected)
    assert [timeline.text(position) for position in range(len(timeline))] == [str(instant) for instant in expected]


@given(INSTANTS, KINDS, st.integers(-22, 22))
def test_positions_of_instants(instants: list[int], kind: Kind, other: int) -> None:
    timeline, expected = timeline_of(instants, kind), plain(instants, kind)
    assert timeline.position(expected).tolist() == list(range(len(expected)))
    assert [int(timeline.position(instant)) for instant in expected] == list(range(len(expected)))
    if other in expected:
        assert timeline.position([[other], [other]]).tolist() == [[expected.index(other)]] * 2
    else:
        for asked in (other, [other], [*expected, other], [[other, other]]):
            with pytest.raises(InputError, match=f"^{other} is not on the timeline"):
                timeline.position(asked)


@given(INSTANTS, KINDS)
def test_positions_inside_a_span(instants: list[int], kind: Kind) -> None:
    timeline, expected = timeline_of(instants, kind), plain(instants, kind)
    begins = [OPEN_BEGIN, *range(-22, 23, 3)]
    ends = [OPEN_END, *range(-22, 23, 4)]
    spans = [(begin, end) for begin in begins for end in ends if begin <= end]
    first, last = timeline.positions(tuple(np.array(spans).T))
    for (begin, end), low, high in zip(spans, first.tolist(), last.tolist(), strict=True):
        inside = [position for position, instant in enumerate(expected) if begin <= instant <= end]
        if inside:
            assert (low, high) == (inside[0], inside[-1])
        else:
            assert low > high


def test_open_ends_run_to_the_edges() -> None:
    timeline = timeline_of([1990, 1995, 2000])
    assert timeline.positions((OPEN_BEGIN, OPEN_END)) == (0, 2)
    assert timeline.positions((1995, OPEN_END)) == (1, 2)
    assert timeline.positions((OPEN_BEGIN, 1994)) == (0, 0)


def test_an_error_tells_what_the_timeline_has() -> None:
    with pytest.raises(InputError) as caught:
        timeline_of([1990, 1995]).position([1990, 1992])
    assert str(caught.value) == "1992 is not on the timeline. It runs from 1990 to 1995 (observed)."
    with pytest.raises(InputError, match="It is empty"):
        timeline_of([]).position([1990])


@pytest.mark.parametrize("end", [OPEN_BEGIN, OPEN_END])
def test_an_open_end_has_no_position_and_is_not_called_a_year(end: int) -> None:
    with pytest.raises(InputError, match=r"^An open end is not on the timeline"):
        timeline_of([1990, 1995]).position([1990, end])


def test_equal_timelines() -> None:
    assert timeline_of([1, 2, 2]) == timeline_of([2, 1])
    assert timeline_of([1, 2]) != timeline_of([1, 3])
    assert timeline_of([1, 2]) != Timeline.of([1, 2], Granularity.DAY, "observed")
    assert timeline_of([1, 2]) == timeline_of([1, 2], "calendar")  # the same instants in the same order
    assert timeline_of([1, 2]) != [1, 2]


def test_dates_are_written_in_the_granularity() -> None:
    timeline = Timeline.of([0, 59], Granularity.DAY, "calendar")
    assert (timeline.text(0), timeline.text(31), timeline.text(-1)) == ("1970-01-01", "1970-02-01", "1970-03-01")


def test_a_kb_has_the_instants_of_all_its_splits() -> None:
    kb = kb_of({"train": [(0, 0, 1, 5, OPEN_END)], "valid": [(0, 0, 1, OPEN_BEGIN, 7)], "test": [(0, 0, 1, 1, 1)]})
    assert kb.timeline().instants.tolist() == [1, 5, 7]
    assert kb.timeline("calendar").instants.tolist() == [1, 2, 3, 4, 5, 6, 7]
