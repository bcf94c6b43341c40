"""Discovered facts are new, ranked, the same each time, and no more than were asked for."""

import random
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from tests.answers.small_runs import trained

from timeplex.answers import discover
from timeplex.answers.discover import SCHEMA, Best, Candidate, Search, table
from timeplex.answers.when import Begins
from timeplex.errors import InputError, UnknownNameError


@pytest.fixture(scope="module")
def found() -> pl.DataFrame:
    return trained().discover(min_probability=0.0, limit=300)


def triples(frame: pl.DataFrame) -> list[tuple[str, str, str]]:
    return frame.select("subject", "relation", "object").rows()


def test_no_known_fact_is_discovered_and_none_twice(found: pl.DataFrame) -> None:
    known = set(trained().kb.to_polars().select("subject", "relation", "object").rows())
    assert len(found) == 300
    assert not known & set(triples(found))
    assert len(set(triples(found))) == len(found)
    assert found.schema == pl.Schema(SCHEMA)


def test_best_first_with_dates_and_reasons(found: pl.DataFrame) -> None:
    assert found["probability"].is_sorted(descending=True)
    assert found["probability"].is_between(0, 1).all()
    assert found["reason"].str.len_chars().min() > 0  # type: ignore[operator]
    assert (found["begin"].cast(pl.Int64) <= found["end"].cast(pl.Int64)).all()


@pytest.mark.skip(reason="discover still asks the run alone, rank and when ask patterns, too")
def test_the_probability_is_that_of_both_questions_at_the_date_of_when(found: pl.DataFrame) -> None:
    for row in found.head(5).to_dicts():
        s, r, o = row["subject"], row["relation"], row["object"]
        when = trained().when(s, r, o)
        assert (row["begin"], row["end"]) == (when["begin"][0], when["end"][0])
        at = (int(row["begin"]), int(row["end"]))
        everyone = len(trained().kb.entities)
        objects = trained().rank(subject=s, relation=r, at=at, k=everyone).filter(pl.col("id") == o)
        subjects = trained().rank(object=o, relation=r, at=at, k=everyone).filter(pl.col("id") == s)
        both = np.array([objects["probability"][0] * subjects["probability"][0]]) ** 0.5
        assert row["probability"] == pytest.approx(both[0], abs=2e-4)  # nothing was fitted: too few dev facts again


def test_no_interval_is_made_that_nobody_sees(found: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the dearest part of a date on a long timeline, and discover has very many dates to tell."""

    def dear(*_: object) -> None:
        raise AssertionError("an interval was asked for")

    monkeypatch.setattr(Begins, "probabilities", dear)
    assert trained().discover(min_probability=0.0, limit=300).equals(found)


def test_the_same_again_in_other_blocks(found: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    assert trained().discover(min_probability=0.0, limit=300).equals(found)
    monkeypatch.setattr(discover, "BLOCK", 13)
    again = trained().discover(min_probability=0.0, limit=300)
    assert set(triples(again)) == set(triples(found))
    assert again["probability"].to_list() == pytest.approx(found["probability"].to_list(), abs=1e-3)


def test_fewer_facts_are_the_best_of_many(found: pl.DataFrame) -> None:
    assert trained().discover(min_probability=0.0, limit=7).equals(found.head(7))


def test_only_what_is_likely_enough(found: pl.DataFrame) -> None:
    rounded = found["probability"].unique().sort(descending=True)
    least = float(rounded[3] + rounded[4]) / 2
    likely = trained().discover(min_probability=least, limit=300)
    assert likely.equals(found.filter(pl.col("probability") > least))
    assert 0 < len(likely) < len(found)
    assert trained().discover(min_probability=1.0, limit=5).filter(pl.col("probability") < 1).is_empty()


def test_only_the_named_relations(found: pl.DataFrame) -> None:
    names = found["relation"].unique().sort().to_list()[:2]
    some = trained().discover(relation=[*names, names[0]], min_probability=0.0, limit=1000)
    assert set(some["relation"]) <= set(names)
    kept = found.filter(pl.col("relation").is_in(names))
    assert set(triples(kept)) <= set(triples(some))


def test_progress_goes_to_the_end() -> None:
    calls: list[tuple[int, int | None]] = []
    list(discover.discover(trained(), limit=1, on_progress=lambda done, total: calls.append((done, total))))
    assert calls[-1][0] == calls[-1][1]
    assert all(one[0] <= other[0] for one, other in pairwise(calls))


@pytest.mark.parametrize("kind", ["static", "undated"])
def test_models_and_kbs_without_time_give_no_dates(kind: str) -> None:
    some = trained(kind).discover(min_probability=0.0, limit=10)
    assert len(some) == 10
    assert some["begin"].null_count() == some["end"].null_count() == 10
    assert some["reason"].str.contains("^the KB has |^the model alone: no training fact tells more$").all()


def test_facts_that_are_not_known_can_be_found_again() -> None:
    """A search that does not know the test facts may propose them; one that does may not."""
    kb = trained().kb
    test = set(zip(kb.test.s.tolist(), kb.test.r.tolist(), kb.test.o.tolist(), strict=True))
    for known, may in ((kb.train + kb.valid, True), (kb.facts, False)):
        search = Search(trained(), known)
        proposed = set()
        for r in search.relations(()):
            for _, s, o in search.candidates(r):
                proposed |= {(int(a), r, int(b)) for a, b in zip(s, o, strict=True)}
        known_triples = set(zip(known.s.tolist(), known.r.tolist(), known.o.tolist(), strict=True))
        assert not proposed & known_triples
        assert bool(proposed & (test - known_triples)) is may


def test_questions_are_asked_at_dates_of_the_entity() -> None:
    search, train = Search(trained()), trained().kb.train
    given = search.entities(0, "object")
    which, when = search._dates(given, "object")
    assert set(which.tolist()) <= set(range(len(given)))
    for entity, year in zip(given[which].tolist(), when.tolist(), strict=True):
        rows = train.s == entity
        assert year in train.begin[rows] or year in train.end[rows]
    assert np.bincount(which).max() <= discover.TIMES


def test_without_candidates_nothing_is_found() -> None:
    nobody = Search(trained()).judge(*(np.empty(0, np.int64) for _ in range(3)))
    assert len(nobody.both) == 0
    none = trained().discover(min_probability=1.0, limit=1, relation=[trained().kb.relations[0]])
    assert none.columns == list(SCHEMA)


def test_wrong_questions() -> None:
    with pytest.raises(InputError, match=r"^1\.5 is not a probability"):
        trained().discover(min_probability=1.5)
    with pytest.raises(InputError, match=r"^0 facts cannot be found"):
        trained().discover(limit=0)
    with pytest.raises(UnknownNameError, match="unknown relation 'flewWith'"):
        trained().discover(relation=["flewWith"])


def test_a_relation_with_too_few_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discover, "LEAST_FACTS", 10_000)
    name = trained().kb.relations[0]
    with pytest.raises(InputError, match=rf"^{name} has [\d,]+ training facts, too few to discover others\. Name"):
        trained().discover(relation=[name])
    with pytest.raises(InputError, match=r"has 10000 training facts\. Train on more facts"):
        trained().discover()


# The best of all


def test_best_keeps_the_best_of_any_order() -> None:
    everyone = [Candidate(number % 10 / 10, 0.0, 0, -number, 0, 2000, 2001) for number in range(40)]
    expected = sorted(everyone, reverse=True)[:8]
    for seed in range(5):
        shuffled = everyone * 2
        random.Random(seed).shuffle(shuffled)
        best = Best(8)
        for each in shuffled:
            best.offer(each)
        assert best.ranked() == expected
        assert len(best._kept) == len(best._heap) == 8


def test_of_two_equally_likely_ones_the_smaller_numbers_come_first() -> None:
    first, second = Candidate(0.5, 0.1, -1, -2, -3, 0, 0), Candidate(0.5, 0.1, -1, -2, -4, 0, 0)
    assert first > second
    assert Candidate(0.5, 0.2, -1, -2, -4, 0, 0) > first
    assert first.triple == (2, 1, 3)


def test_what_the_kb_has_of_the_two_is_told_first() -> None:
    kb = trained().kb
    s, r, o, begin, end = next(iter(kb.train[:1]))
    reverse = Candidate(0.5, 0.5, -r, -o, -s, begin, end)
    span = trained().asking.span_text(begin, end)
    told = f"the KB has {kb.entities[s]} {kb.relations[r]} {kb.entities[o]}, {span}"
    assert table(trained(), [reverse])["reason"][0].startswith(told)
    stranger = next(each for each in range(len(kb.entities)) if len(kb.facts.of_pair(s, each)) == 0)
    assert "the KB has" not in table(trained(), [Candidate(0.5, 0.5, -r, -s, -stranger, begin, end)])["reason"][0]
