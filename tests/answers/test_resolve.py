"""Names and dates as people write them."""

import datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.answers.random_runs import random_run

from timeplex.answers.resolve import Resolver, columns
from timeplex.errors import InputError, UnknownNameError
from timeplex.kb import spans
from timeplex.kb.dates import Granularity, write, write_spans
from timeplex.kb.timeline import Timeline

RUN = random_run(1)


def asking(first: int = 1990, last: int = 2003) -> Resolver:
    return Resolver(RUN.kb, Timeline.of([first, last], Granularity.YEAR, "calendar"))


@given(st.integers(1990, 2003), st.integers(1990, 2003))
def test_every_way_to_write_a_span_means_the_same(one: int, other: int) -> None:
    begin, end = sorted((one, other))
    texts = f"{begin}..{end}", f"{begin}-03..{end}-12-31", f" {begin} .. {end} "
    tuples = (
        (begin, end),
        (str(begin), f"{end}/05/06"),
        (datetime.date(begin, 1, 1), datetime.datetime(end, 5, 5, 7, 7)),
    )
    for at in (*texts, *tuples, (np.int64(begin), np.float64(end))):
        assert asking().span(at) == (begin, end)
    if begin == end:
        for single in (begin, str(begin), float(begin), f"{begin}-##-##", datetime.date(begin, 3, 1), np.int32(begin)):
            assert asking().span(single) == (begin, begin)


@given(st.integers(1990, 2003))
def test_open_sides_run_to_the_edge(year: int) -> None:
    assert asking().span(f"{year}..") == asking().span((year, None)) == (year, 2003)
    assert asking().span(f"..{year}") == asking().span((None, year)) == asking().span(("", year)) == (1990, year)
    assert asking().span("..") == (1990, 2003)


def test_a_coarse_date_covers_all_that_lies_in_it() -> None:
    run = random_run(2)
    fine = Timeline.of([11_000, 12_000], Granularity.DAY, "calendar")  # 2000-02-13 to 2002-11-09
    kb = type(run.kb)(run.kb.entities, run.kb.relations, Granularity.DAY, run.kb.splits, run.kb.problems)
    days = Resolver(kb, fine)
    assert write(days.span("2001"), Granularity.DAY) == ["2001-01-01", "2001-12-31"]
    assert write(days.span("2001-02"), Granularity.DAY) == ["2001-02-01", "2001-02-28"]
    assert write(days.span("2000..2001-03"), Granularity.DAY) == ["2000-02-13", "2001-03-31"]  # cut at the edge
    assert write(days.span("2002"), Granularity.DAY) == ["2002-01-01", "2002-11-09"]


@pytest.mark.parametrize(
    ("at", "message"),
    [
        (1989, "1989 is outside of the timeline, which runs from 1990 to 2003."),
        ("2018", "2018 is outside of the timeline"),
        ("1995..2044", "2044 is outside of the timeline"),
        ((1200, 1995), "1200 is outside"),
        ("2001..1999", "2001..1999 ends before it begins. Give the earlier date first."),
        ("soon", "'soon' is not a date. Write it as 2000, 2000-05 or 2000-05-17."),
        ("19##", "'19##' is not a date."),
        ("1999-13", "is not a date"),
        ("", "No time is given."),
        (None, "No time is given."),
        (True, "True is not a date."),
        ((1, 2, 3), "(1, 2, 3) is not a time."),
        ({"a": 1}, "is not a date."),
    ],
)
def test_what_is_no_time(at: object, message: str) -> None:
    with pytest.raises(InputError) as error:
        asking().span(at)  # type: ignore[arg-type]
    assert message in str(error.value)


def test_names_to_numbers() -> None:
    assert asking().entities(["e3", "E_3".replace("_", ""), "e0", "e3"]).tolist() == [3, 3, 0, 3]
    assert asking().relations(["R1"]).tolist() == [1]
    assert (asking().entity("E2"), asking().relation("r0")) == (2, 0)
    with pytest.raises(UnknownNameError, match="unknown entity 'x9'"):
        asking().entities(["e1", "x9"])
    with pytest.raises(UnknownNameError, match=r"unknown relation 'x9'; no name is near it\. There are: r0, r1\."):
        asking().relations(["x9"])


def test_nothing_is_said_of_what_was_not_learned() -> None:
    assert not asking().seen[6]
    with pytest.raises(InputError, match="'e6' has no training fact, so that nothing was learned of it"):
        asking().entities(["e0", "e6"])


def test_columns_broadcast() -> None:
    assert columns(a="one", b=["x", "y"], c=(1, 2)) == {"a": ["one", "one"], "b": ["x", "y"], "c": [(1, 2), (1, 2)]}
    assert columns(a=pl.Series([1]), b=np.array([1, 2])) == {"a": [1, 1], "b": [1, 2]}
    assert columns(a="one") == {"a": ["one"]}
    assert columns(a=[], b="x") == {"a": [], "b": []}
    with pytest.raises(InputError, match="different lengths: a 2, b 3"):
        columns(a=[1, 2], b=[1, 2, 3])


def test_spans_in_words() -> None:
    some = [
        (2000, 2000),
        (2000, 2003),
        (2000, spans.OPEN_END),
        (spans.OPEN_BEGIN, 0),
        (spans.OPEN_BEGIN, spans.OPEN_END),
    ]
    assert write_spans(some, Granularity.YEAR) == ["2000", "2000–2003", "2000–", "–0", "no dates"]
    assert write_spans([], Granularity.YEAR) == []
    assert asking().span_text(0, spans.OPEN_END) == "0–"
