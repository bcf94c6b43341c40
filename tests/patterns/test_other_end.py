"""The other end of a fact: Bayes by brute force, rows apart from each other, ends that follow what is planted."""

import numpy as np
import pytest
from tests.patterns.small_evidence import evidence_of

from timeplex.kb import spans
from timeplex.kb.dates import Granularity
from timeplex.patterns import dating, other_end
from timeplex.patterns.base import SIDES, Evidence, Side, TimeQueries
from timeplex.patterns.dating import DateModel
from timeplex.patterns.open_ends import Begun, OpenEnds
from timeplex.patterns.other_end import given, share_of_hull
from timeplex.patterns.other_end import other_end as missing


def terms(granularity: Granularity = Granularity.YEAR, step: int = 4) -> Evidence:
    """Everybody's terms last for `step` and follow each other; each has another fact of the same dates."""
    found = []
    for entity in range(3):
        for term in range(12):
            begin = 1900 + entity + step * term
            found += [(entity, 0, 3, begin, begin + step), (entity, 1, (entity + 1) % 3, begin, begin + step)]
    return evidence_of(found, granularity)


@pytest.fixture(scope="module")
def model() -> DateModel:
    return DateModel.fit(terms())


def asked(of: Evidence, rows: list[int]) -> TimeQueries:
    return TimeQueries.of(of.facts[rows], np.array(rows))


def test_ends_follow_begins_and_begins_come_before_ends(model: DateModel) -> None:
    of = model.evidence
    rows = list(range(0, len(of), 5))
    begin, end = (np.asarray(each, np.int64)[rows] for each in of.facts.span)
    assert missing(model, asked(of, rows), "end", begin).instant.tolist() == end.tolist()
    assert missing(model, asked(of, rows), "begin", end).instant.tolist() == begin.tolist()
    axis, likely = given(model, asked(of, rows), "end", begin)
    assert likely.sum(1) == pytest.approx(np.ones(len(rows)))
    assert likely[axis < begin[:, None]].max() == 0
    axis, likely = given(model, asked(of, rows), "begin", end)
    assert likely.sum(1) == pytest.approx(np.ones(len(rows)))
    assert likely[axis > end[:, None]].max() == 0


def test_begins_are_found_by_bayes(model: DateModel) -> None:
    """Pr(b | e) ∝ Pr(b) Pr(e | b), each begin looked at by itself."""
    of = model.evidence
    query, end = asked(of, [10]), 1931
    axis, likely = given(model, query, "begin", np.array([end]))
    prior = model.begins(TimeQueries(query.s, query.r, query.o, query.own, axis, np.ones_like(axis)))[0]
    place = int(np.flatnonzero(axis[0] == end)[0])
    expected = np.zeros(axis.shape[1])
    for begin in range(place + 1):
        ends = model.ends(
            TimeQueries(query.s, query.r, query.o, query.own, axis, np.ones_like(axis)),
            np.array([[begin]]),
            np.ones((1, 1)),
        )
        expected[begin] = prior[begin] * ends[0, 0, place]
    assert likely[0] == pytest.approx(expected / expected.sum(), abs=1e-6)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("granularity", [Granularity.YEAR, Granularity.DAY])
def test_a_row_depends_on_no_other(side: Side, granularity: Granularity, monkeypatch: pytest.MonkeyPatch) -> None:
    of = terms(granularity, 4 if granularity == Granularity.YEAR else 300)
    model = DateModel.fit(of)
    assert dating.is_coarse(of) == (granularity == Granularity.DAY)
    rows = [0, 7, 20, 33, 50]
    known = np.asarray(of.facts.begin if side == "end" else of.facts.end, np.int64)[rows] + np.array([0, 3, 0, -1, 0])
    together = missing(model, asked(of, rows), side, known)
    monkeypatch.setattr(other_end, "BLOCK", 2)
    in_blocks = missing(model, asked(of, rows), side, known)
    alone = [missing(model, asked(of, [row]), side, known[at : at + 1]) for at, row in enumerate(rows)]
    for said in (in_blocks.instant.tolist(), [int(each.instant[0]) for each in alone]):
        assert said == together.instant.tolist()
    assert [float(each.about_right[0]) for each in alone] == pytest.approx(together.about_right.tolist())


def test_how_much_of_their_hull_two_spans_share() -> None:
    shared = share_of_hull(([1990, 1990, 1990], [1999, 1994, 1990]), ([1990, 1990, 1995], [1999, 1999, 1995]))
    assert shared.tolist() == [1.0, 0.5, 0.0]


# --- open ends -----------------------------------------------------------------------------------------


def clubs(count: int = 60) -> Evidence:
    """At each of many clubs one fact follows the other, and only the last one is open."""
    found = []
    for club in range(count):
        for term in range(3):
            begin = 1950 + club % 7 + 10 * term
            found.append((3 + (club * 3 + term) % 40, 0, 50 + club, begin, spans.OPEN_END if term == 2 else begin + 9))
    of = evidence_of(found)
    return Evidence(of.facts, 200, 2, 1950, 2000, Granularity.YEAR, of.axis, of.width)


def begun(of: Evidence, rows: list[int], own: bool = True) -> Begun:
    facts = of.facts[rows]
    columns = (np.asarray(column, np.int64) for column in (facts.s, facts.r, facts.o, facts.begin))
    return Begun(*columns, np.array(rows) if own else np.full(len(rows), -1))


def test_who_has_a_successor_does_not_go_on() -> None:
    of = clubs()
    model = OpenEnds.fit(of)
    likely = model(begun(of, list(range(len(of)))))
    is_open = ~of.facts.has_end
    assert likely[is_open].min() > 0.8
    assert likely[~is_open].max() < 0.2
    late = begun(of, [2])
    assert model.follower(late)[1].tolist() == [False]
    assert model.follower(begun(of, [1]))[1].tolist() == [True]


def test_a_fact_does_not_vouch_for_its_own_open_end() -> None:
    """Whether it is open or not changes nothing of what is said of it, but by the share of all facts."""
    of = clubs()
    for row in (4, 5):
        other = of.facts.end.copy()
        other[row] = spans.OPEN_END if other[row] != spans.OPEN_END else int(of.facts.begin[row]) + 9
        facts = type(of.facts)(*of.facts.columns[:4], other)
        turned = Evidence(facts, of.entities, of.relations, of.first, of.last, of.granularity, of.axis, of.width)
        mine, its = (OpenEnds(each).rows_of(begun(each, [row])) for each in (of, turned))
        assert mine == pytest.approx(its, abs=0.02)
        vouched = (
            OpenEnds(of).rows_of(begun(of, [row], own=False)),
            OpenEnds(turned).rows_of(begun(turned, [row], False)),
        )
        assert np.abs(vouched[0] - vouched[1]).max() > 0.2


def test_without_open_ends_nothing_goes_on() -> None:
    of = terms()
    assert OpenEnds.fit(of)(begun(of, [0, 1])).tolist() == [0.0, 0.0]
