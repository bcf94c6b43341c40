"""Laws of every registered pattern that says something of years, on tiny KBs with all that is awkward."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.patterns.small_evidence import evidence, queries

from timeplex.patterns import dating  # noqa: F401  (it registers them)
from timeplex.patterns.base import PATTERNS, SIDES, Evidence, Side, TimeQueries

NAMES = [name for name, kind in PATTERNS.items() if kind.year_features]

every_pattern = pytest.mark.parametrize(("name", "side"), [(name, side) for name in NAMES for side in SIDES])


@st.composite
def cases(draw: st.DrawFn) -> tuple[Evidence, TimeQueries]:
    of = draw(evidence())
    return of, draw(queries(of))


@every_pattern
@settings(max_examples=25)
@given(case=cases())
def test_rows_are_finite_and_of_the_right_shape(name: str, side: Side, case: tuple[Evidence, TimeQueries]) -> None:
    of, asked = case
    rows = PATTERNS[name](of).years(asked, side)
    assert rows.dtype == np.float32
    assert rows.shape == (len(asked), len(PATTERNS[name].year_features), asked.instants(of).shape[1])
    assert np.isfinite(rows).all()


@every_pattern
@settings(max_examples=25)
@given(case=cases(), data=st.data())
def test_the_order_of_facts_does_not_matter(
    name: str, side: Side, case: tuple[Evidence, TimeQueries], data: st.DataObject
) -> None:
    of, asked = case
    order = np.array(data.draw(st.permutations(range(len(of)))), np.int64)
    shuffled = Evidence(of.facts[order], of.entities, of.relations, 0, 0, of.granularity, of.axis, of.width)
    own = np.append(np.argsort(order), -1)[asked.own]
    moved = TimeQueries(asked.s, asked.r, asked.o, own, asked.axis, asked.width)
    found, expected = PATTERNS[name](shuffled).years(moved, side), PATTERNS[name](of).years(asked, side)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@every_pattern
@settings(max_examples=40)
@given(of=evidence(), data=st.data())
def test_a_fact_does_not_vouch_for_itself(name: str, side: Side, of: Evidence, data: st.DataObject) -> None:
    """With it in the evidence as `own`, and not counted, all is as without it."""
    if len(of) == 0:
        return
    own = data.draw(st.integers(0, len(of) - 1))
    planted = np.arange(len(of)) == own
    s, r, o = (np.array([column[own]]) for column in (of.facts.s, of.facts.r, of.facts.o))
    found = PATTERNS[name](of, ~planted).years(TimeQueries(s, r, o, np.array([own])), side)
    expected = PATTERNS[name](of.without(planted)).years(TimeQueries(s, r, o), side)
    np.testing.assert_array_equal(found, expected)


@every_pattern
@settings(max_examples=25)
@given(case=cases())
def test_a_batch_is_its_queries_and_asking_changes_nothing(
    name: str, side: Side, case: tuple[Evidence, TimeQueries]
) -> None:
    of, asked = case
    columns = [asked.s, asked.r, asked.o, asked.own, asked.instants(of), of.facts.begin, of.facts.end, of.axis]
    before = [column.copy() for column in columns]
    pattern = PATTERNS[name](of)
    rows = pattern.years(asked, side)
    kept = rows.copy()
    for at in range(len(asked)):
        np.testing.assert_array_equal(pattern.years(asked[at : at + 1], side)[0], rows[at])
    np.testing.assert_array_equal(pattern.years(asked, side), kept)
    np.testing.assert_array_equal(rows, kept)
    for column, copy in zip(columns, before, strict=True):
        np.testing.assert_array_equal(column, copy)


@every_pattern
@settings(max_examples=25)
@given(case=cases())
def test_what_it_points_at_are_instants_of_the_queries(
    name: str, side: Side, case: tuple[Evidence, TimeQueries]
) -> None:
    of, asked = case
    place, at, strength = PATTERNS[name](of).points(asked, side)
    assert place.shape == at.shape == strength.shape
    assert ((place >= 0) & (place < len(asked))).all()
    assert (np.abs(at) < 10**6).all()
    assert (np.isfinite(strength) & (strength > 0)).all()
