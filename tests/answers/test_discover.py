"""Discovered facts are new, ranked, the same each time, and such as a person with the table would name."""

import numpy as np
import polars as pl
import pytest
from tests.answers.small_learned import asked
from tests.answers.test_learned import HIDDEN, rows

import timeplex
from timeplex.answers import discover
from timeplex.answers.discover import SCHEMA, Search, Triples
from timeplex.errors import InputError, UnknownNameError
from timeplex.kb.facts import pair_key


@pytest.fixture(scope="module")
def found() -> pl.DataFrame:
    return asked().discover(min_probability=0.0, limit=300)


@pytest.fixture(scope="module")
def search() -> Search:
    learned = asked()
    return Search(learned.kb, learned.kb.facts, learned.links.who.model, learned.dates.model)


def triples(frame: pl.DataFrame) -> list[tuple[str, str, str]]:
    return frame.select("subject", "relation", "object").rows()


def test_no_known_fact_is_discovered_and_none_twice(found: pl.DataFrame) -> None:
    known = set(asked().kb.to_polars().select("subject", "relation", "object").rows())
    assert len(found) > 50
    assert not known & set(triples(found))
    assert len(set(triples(found))) == len(found)
    assert found.schema == pl.Schema(SCHEMA)


def test_best_first_with_dates_and_reasons(found: pl.DataFrame) -> None:
    assert found["probability"].is_sorted(descending=True)
    assert found["probability"].is_between(0, 1).all()
    assert found["reason"].str.len_chars().min() > 0  # type: ignore[operator]
    ended = found.filter(pl.col("end").is_not_null())
    assert (ended["begin"].cast(pl.Int64) <= ended["end"].cast(pl.Int64)).all()


def test_the_same_in_other_blocks(found: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discover, "BLOCK", 7)
    monkeypatch.setattr(discover, "JUDGED_AT_ONCE", 11)
    again = asked().discover(min_probability=0.0, limit=300)
    assert set(triples(again)) == set(triples(found))
    assert again["probability"].to_list() == pytest.approx(found["probability"].to_list(), abs=1e-3)


def test_fewer_facts_are_the_best_of_many(found: pl.DataFrame) -> None:
    assert asked().discover(min_probability=0.0, limit=7).equals(found.head(7))
    least = float(found["probability"][20])
    assert asked().discover(min_probability=least, limit=300)["probability"].min() >= least - 1e-4  # type: ignore[operator]


def test_only_the_relations_that_are_asked_for() -> None:
    name = asked().kb.relations[1]
    some = asked().discover(relation=[name, name], min_probability=0.0, limit=1000)
    assert set(some["relation"]) == {name}


def test_progress_reaches_its_end() -> None:
    calls: list[tuple[int, int | None]] = []
    list(discover.discover(asked(), limit=1, on_progress=lambda done, total: calls.append((done, total))))
    assert calls == sorted(calls)
    assert calls[-1][0] == calls[-1][1]


def test_the_best_of_two_lists_has_each_triple_once() -> None:
    one = Triples(np.array([1, 2]), np.array([0, 0]), np.array([5, 6]), np.array([0.3, 0.9]))
    other = Triples(np.array([1, 3]), np.array([0, 0]), np.array([5, 7]), np.array([0.5, 0.4]))
    best = one.best(other, 2)
    assert (best.s.tolist(), best.o.tolist(), best.score.tolist()) == ([2, 1], [6, 5], [0.9, 0.5])
    assert len(one.best(other, 10)) == 3


def test_screening_asks_for_new_facts_of_a_role(search: Search) -> None:
    everything = search.screened(search.enough(), 10_000)
    assert not search.known.states(everything.s, everything.r, everything.o).any()
    assert (everything.s != everything.o).all()
    assert everything.score.tolist() == sorted(everything.score.tolist(), reverse=True)
    few = search.screened(search.enough(), 20)
    assert few.s.tolist() == everything.s[:20].tolist()


def test_what_implies_a_relation_is_counted(search: Search) -> None:
    """Of the pairs with a directed relation, how many have r as well."""
    width = len(search.kb.relations)
    pairs: dict[int, set[tuple[int, int]]] = {each: set() for each in range(2 * width)}
    for s, r, o, _, _ in search.known:
        pairs[r].add((s, o))
        pairs[r + width].add((o, s))
    for r in range(width):
        keys, often = search._implied(r)
        expected: dict[tuple[int, int], float] = {}
        for other, of in pairs.items():
            both = len(of & pairs[r])
            share = both / (len(of) + discover.SHRINKAGE) if both >= discover.LEAST_TOGETHER and other != r else 0.0
            for pair in of:
                expected[pair] = max(expected.get(pair, 0.0), share)
        order = sorted(expected, key=lambda pair: int(pair_key(*pair)))
        assert keys.tolist() == [int(pair_key(*pair)) for pair in order]
        assert often.tolist() == pytest.approx([expected[pair] for pair in order])


def test_what_a_person_would_name() -> None:
    """What was hidden comes first: the other side of a marriage, with its dates; who governed between two others."""
    learned = timeplex.learn(timeplex.read([row for row in rows() if row[:3] not in HIDDEN]))
    found = learned.discover(min_probability=0.0, limit=100)
    assert set(triples(found)[:2]) <= set(HIDDEN)
    mirror = found[:5].filter(pl.col("relation") == "marriedTo").to_dicts()[0]
    truth = next(row for row in rows() if row[:3] == ("spouse 5-5", "marriedTo", "head 5-5"))
    assert tuple(mirror.values())[:5] == (*truth[:3], str(truth[3]), str(truth[4]))
    assert mirror["reason"].startswith("the KB has head 5-5 marriedTo spouse 5-5")
    kinds = {"marriedTo": ("head", "spouse"), "governs": ("head",), "hosted": ("town",), "foundedIn": ("town",)}
    # Of this spouse the table tells only that somebody is married to it, which is told of heads, too.
    for row in found.filter((pl.col("probability") > 0.2) & (pl.col("subject") != "spouse 5-5")).to_dicts():
        assert row["subject"].startswith(kinds.get(row["relation"], ("head",)))


def test_wrong_requests() -> None:
    with pytest.raises(InputError, match=r"1\.5 is not a probability"):
        asked().discover(min_probability=1.5)
    with pytest.raises(InputError, match="0 facts cannot be found"):
        asked().discover(limit=0)
    with pytest.raises(UnknownNameError, match="unknown relation 'flewWith'"):
        asked().discover(relation=["flewWith"])


def test_relations_with_few_facts_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discover, "LEAST_FACTS", 10_000)
    name = asked().kb.relations[0]
    with pytest.raises(InputError, match=rf"^{name} has [\d,]+ facts, too few to discover others\. Name"):
        asked().discover(relation=[name])
    with pytest.raises(InputError, match="No relation of"):
        asked().discover()
