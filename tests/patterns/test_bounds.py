"""What could grow without end is bounded, and says the same where the bounds are not reached."""

import numpy as np
import pytest
from tests.builders import facts_of

from timeplex.kb.dates import Granularity
from timeplex.kb.facts import Facts
from timeplex.patterns import candidate_dates, dating, densities, events, gaps, rules  # noqa: F401  (dating registers)
from timeplex.patterns.base import PATTERNS, Evidence, LinkQueries, TimeQueries, axis_of
from timeplex.patterns.candidate_dates import CandidateDates
from timeplex.patterns.events import Events
from timeplex.patterns.gaps import Gaps
from timeplex.patterns.rules import Rules, paths_from


def random_evidence(facts: int = 60, entities: int = 8, relations: int = 4, seed: int = 0, years: int = 40) -> Evidence:
    random = np.random.default_rng(seed)
    s, o = random.integers(entities, size=(2, facts))
    begin = 1900 + random.integers(years, size=facts)
    of = Facts(s, random.integers(relations, size=facts), o, begin, begin + random.integers(5, size=facts))
    return Evidence(of, entities, relations, 1900, 1900 + years + 4, Granularity.YEAR, *axis_of(of, Granularity.YEAR))


def all_questions(of: Evidence) -> LinkQueries:
    x, r = (each.ravel() for each in np.mgrid[0 : of.entities, 0 : 2 * of.relations])
    return LinkQueries(x, r, np.full(len(x), 1910), np.full(len(x), 1915))


def test_rare_relations_share_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    assert densities.tables_of(np.array([0, 0, 2, 2, 2, 1]), 4).tolist() == [0, 1, 2, 3]
    monkeypatch.setattr(densities, "MOST_TABLES", 2)
    assert densities.tables_of(np.array([0, 0, 2, 2, 2, 1]), 4).tolist() == [0, 2, 1, 2]


@pytest.mark.parametrize("name", ["usual-dates", "successions", "gaps"])
def test_frequent_relations_are_heard_as_before(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relation 0 is in most facts; 1, 2 and 3 share what they say of relations."""
    of = random_evidence()
    facts = of.facts
    r = np.where(np.arange(len(of)) % 4, 0, facts.r)
    of = Evidence(Facts(facts.s, r, facts.o, facts.begin, facts.end), 8, 4, 1900, 1944, of.granularity, of.axis)
    asked = TimeQueries(np.arange(6), np.array([0, 0, 0, 1, 2, 3]), np.arange(6)[::-1])
    before = PATTERNS[name](of).years(asked, "begin")
    monkeypatch.setattr(densities, "MOST_TABLES", 1 if name == "usual-dates" else 2)
    after = PATTERNS[name](of).years(asked, "begin")
    np.testing.assert_array_equal(after[:3], before[:3])
    assert np.isfinite(after).all()
    if name == "usual-dates":
        np.testing.assert_array_equal(after[3], after[4])
        assert (after[3] != before[3]).any()


def test_rare_kinds_of_gaps_share_the_table_of_their_relation(monkeypatch: pytest.MonkeyPatch) -> None:
    of = random_evidence()
    every = Gaps(of).tables["begin"]
    monkeypatch.setattr(gaps, "MOST_KINDS", 5)
    few = Gaps(of).tables["begin"]
    assert len(few.codes) == 5
    assert set(few.codes) <= set(every.codes)
    np.testing.assert_array_equal(few.table[5:], every.table[len(every.codes) :])
    for place, code in enumerate(few.codes):
        np.testing.assert_array_equal(few.table[place], every.table[np.searchsorted(every.codes, code)])


def test_rare_pairs_of_relations_say_nothing_of_dates(monkeypatch: pytest.MonkeyPatch) -> None:
    of = random_evidence()
    asked = all_questions(of)
    every = CandidateDates(of)
    monkeypatch.setattr(candidate_dates, "MOST_TABLES", 3)
    few = CandidateDates(of)
    assert len(few.role) == 3
    silent = ~np.isin((asked.r + 4) % 8, few.role)
    assert silent.any()
    assert not few.candidates(asked)[silent].any()
    assert every.candidates(asked)[silent].any()


def test_some_dates_stand_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 600 dates 64 are as good, for how often gaps would be by chance."""
    of = random_evidence(1200, 40, 1, years=600)
    exact, asked = CandidateDates(of), all_questions(of)
    monkeypatch.setattr(candidate_dates, "MOST_DATES", 64)
    start, dates, times = candidate_dates._dates_of(of, 0, 64)
    assert start.tolist() == [0, len(dates)]
    assert len(dates) <= 64
    assert abs(np.average(dates, weights=times) - of.facts.begin.mean()) < 5
    apart = CandidateDates(of).candidates(asked) - exact.candidates(asked)
    assert np.abs(apart).mean() < 0.1


def test_paths_are_counted_before_they_are_walked() -> None:
    """On a line 0 – 1 – 2 – 3, with steps back: one for each of 0's edges, then those of 1, then those of 0 and 2."""
    x, y = np.array([0, 1, 2, 1, 2, 3]), np.array([1, 2, 3, 0, 1, 2])
    assert paths_from(x, y, 4).tolist() == [1 + 2 + 3, 1 + 1 + 2 + 1 + 2 + 3, 1 + 1 + 2 + 1 + 2 + 3, 1 + 2 + 3]


def test_thinned_rules_leave_the_own_fact_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fact that was no case of a cell is not taken out of it."""
    of = random_evidence(30, 6, 2)
    whole = Rules(of)
    monkeypatch.setattr(rules, "MOST_WORK", float(paths_from(of.x, of.y, 6)[of.x].sum()) / 3)
    thin = Rules(of)
    assert thin.asked.mean() == pytest.approx(1 / 3, abs=0.05)
    assert thin.cells[1].sum() < whole.cells[1].sum()
    rows = np.concatenate([np.arange(30), np.arange(30)])
    found = thin.candidates(LinkQueries(of.x, of.r, of.begin, of.end, rows))
    assert np.isfinite(found).all()
    assert (found >= 0).all()


def test_few_first_steps_of_an_entity_with_very_many_paths_lead_on(monkeypatch: pytest.MonkeyPatch) -> None:
    of = random_evidence(30, 6, 2)
    whole = Rules(of).candidates(all_questions(of))
    monkeypatch.setattr(rules, "MOST_PATHS", 50)
    thin = Rules(of)
    assert thin.stride.max() > 1
    found = thin.candidates(all_questions(of))
    assert ((found[:, 0] > 0) == (whole[:, 0] > 0)).mean() > 0.99  # paths of one fact are all there
    assert (found[:, 5] > 0).sum() < (whole[:, 5] > 0).sum()


def test_very_many_events_of_a_pair_are_counted_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """In windows that slide over them, or pair by pair."""
    random = np.random.default_rng(0)
    rows = [(0, r, 1, t, t) for r, t in zip(random.integers(2, size=300), random.integers(400, size=300), strict=True)]
    of = Evidence(facts_of(rows), 3, 2, 0, 400)
    log, slid = Events(of)._log, Events(of)._rules.hits
    number, start = Events(of)._rules.number, log.start
    by_pairs = np.zeros_like(slid)
    for x in range(2):
        for i in range(start[x], start[x + 1]):
            for j in range(start[x], start[x + 1]):
                if i != j:
                    bucket = events._bucket(int(log.t[j] - log.t[i]))
                    by_pairs[number[log.r[i]], bucket, number[log.r[j]]] += 1
    assert 300 > 19 * 4
    np.testing.assert_array_equal(slid, by_pairs)


def test_the_kernel_of_any_distance_is_one_table() -> None:
    """A thousand years by day take no more room than a week."""
    of = Evidence(facts_of([(0, 0, 1, 0, 0), (0, 0, 1, 400_000, 400_000)]), 2, 1, 0, 400_000, Granularity.DAY)
    row = Events(of).candidates(LinkQueries([0], [0], [0], [0]))[0]  # type: ignore[arg-type]
    assert row[Events.candidate_features.index("same 40"), 1] == np.float32(np.log1p(1.0))
    assert events._KERNELS[:, -1].tolist() == [0, 0, 0]
    assert events._KERNELS.nbytes < 100_000
