"""Orderings of relations: by hand, against a literal double loop, and the lists of the paper's appendix C."""

import functools
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.benchmark_data import need_data
from tests.builders import facts_of

from timeplex.datasets.benchmarks import load
from timeplex.datasets.synthetic import generate
from timeplex.kb import spans
from timeplex.kb.facts import Facts, TemporalKB
from timeplex.kb.names import Names
from timeplex.patterns.orderings import Ordering, count, mine, survey

BORN, WED, DIED = range(3)
OPEN = spans.OPEN_BEGIN


def facts(*rows: tuple[int, int, int]) -> Facts:
    """From (s, r, begin); objects all differ and ends are open."""
    return facts_of((s, r, o, begin, spans.OPEN_END) for o, (s, r, begin) in enumerate(rows))


def by_pair(orderings: list[Ordering]) -> dict[tuple[int, int], tuple[int, int, int]]:
    return {(each.first, each.second): (each.holds, each.cases, each.entities) for each in orderings}


# --- by hand -------------------------------------------------------------------------------------------


def test_counts_by_hand() -> None:
    lives = facts(
        *((0, BORN, 1900), (0, WED, 1920), (0, WED, 1930), (0, DIED, 1930)),  # wed twice, last in the year of death
        *((1, BORN, 1900), (1, WED, 1890), (1, WED, 1890)),  # a mistake, stated twice
        *((2, BORN, OPEN), (2, WED, 1800), (2, DIED, 1850)),  # a birth that nobody knows
        (3, BORN, 1900),
    )  # fmt: skip
    assert by_pair(count(lives)) == {
        (BORN, WED): (2, 4, 2),
        (WED, BORN): (2, 4, 2),
        (BORN, DIED): (1, 1, 1),
        (DIED, BORN): (0, 1, 1),
        (WED, DIED): (3, 3, 2),  # 1930 ≤ 1930
        (DIED, WED): (1, 3, 2),
    }
    assert by_pair(count(lives, strict=True))[WED, DIED] == (2, 3, 2)
    assert by_pair(count(lives, strict=True))[DIED, WED] == (0, 3, 2)


def test_a_relation_has_no_ordering_with_itself() -> None:
    assert count(facts((0, WED, 1900), (0, WED, 1910))) == []


def test_nothing_comes_of_nothing() -> None:
    assert count(Facts.empty()) == []
    assert count(facts((0, BORN, OPEN), (0, DIED, OPEN))) == []


def test_what_is_asked_for_is_a_least() -> None:
    good = [row for s in range(99) for row in ((s, BORN, 1900), (s, DIED, 1950))]
    lives = facts(*good, (99, BORN, 1950), (99, DIED, 1900))
    wanted = {(BORN, DIED): (99, 100, 100)}
    assert by_pair(mine(lives)) == wanted
    assert by_pair(mine(lives, cases=100, entities=100)) == wanted
    assert mine(lives, cases=101) == []
    assert mine(lives, entities=101) == []
    assert mine(lives, confidence=0.9901) == []
    worse = facts(*good, (99, BORN, 1950), (99, DIED, 1900), (100, BORN, 1950), (100, DIED, 1900))
    assert mine(worse) == []


def test_rounding_takes_no_ordering_away() -> None:
    """0.07 · 100 is 7.000000000000001 in floating point, but 7 of 100 are 7 %."""
    early = [row for s in range(7) for row in ((s, BORN, 1900), (s, DIED, 1950))]
    late = [row for s in range(7, 100) for row in ((s, BORN, 1950), (s, DIED, 1900))]
    assert (BORN, DIED) in by_pair(mine(facts(*early, *late), confidence=0.07))


def test_one_subject_alone_makes_no_ordering() -> None:
    one = [(0, BORN, 1900), *((0, DIED, 1950 + number) for number in range(30))]
    assert mine(facts(*one)) == []
    assert by_pair(mine(facts(*one, (1, BORN, 1900), (1, DIED, 1900)))) == {(BORN, DIED): (31, 31, 2)}


def test_text_and_confidence() -> None:
    relations = Names(pl.Series(["P19", "P20"]), {"P19": "born in"})
    ordering = Ordering(0, 1, 99, 100, 50)
    assert ordering.text(relations) == "born in → P20"
    assert ordering.confidence == 0.99


def test_mining_needs_no_torch() -> None:
    code = (
        "import sys, timeplex.patterns.orderings, timeplex.patterns.relation_classes; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- against a double loop -----------------------------------------------------------------------------


def literal_counts(rows: list[tuple[int, int, int]], strict: bool) -> dict[tuple[int, int], tuple[int, int, int]]:
    """Every fact beside every other one."""
    found: dict[tuple[int, int], tuple[int, int, set[int]]] = {}
    for s, r, t in rows:
        for other_s, other_r, other_t in rows:
            if s == other_s and r != other_r and OPEN not in (t, other_t):
                holds, cases, subjects = found.get((r, other_r), (0, 0, set()))
                right = t < other_t if strict else t <= other_t
                found[r, other_r] = (holds + right, cases + 1, subjects | {s})
    return {pair: (holds, cases, len(subjects)) for pair, (holds, cases, subjects) in found.items()}


TIMES = st.integers(-3, 3) | st.sampled_from([OPEN, -(2**31) + 1, 2**31 - 2])
ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), TIMES), max_size=25)


@given(rows=ROWS, strict=st.booleans(), block=st.sampled_from([1, 3, 1 << 22]))
def test_counts_are_those_of_a_double_loop(rows, strict, block) -> None:  # type: ignore[no-untyped-def]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("timeplex.patterns.orderings.BLOCK", block)
        assert by_pair(count(facts(*rows), strict=strict)) == literal_counts(rows, strict)


@given(rows=ROWS, confidence=st.sampled_from([0.5, 0.75, 1.0]), cases=st.integers(1, 5), entities=st.integers(1, 3))
def test_mined_are_those_that_count_says(rows, confidence, cases, entities) -> None:  # type: ignore[no-untyped-def]
    found = mine(facts(*rows), confidence=confidence, cases=cases, entities=entities)
    assert by_pair(found) == {
        pair: counts
        for pair, counts in literal_counts(rows, False).items()
        if counts[0] / counts[1] >= confidence and counts[1] >= cases and counts[2] >= entities
    }


# --- the paper's lists ---------------------------------------------------------------------------------


@functools.cache
def benchmark(name: str) -> TemporalKB:
    return load(name, need_data(name))


YAGO = {
    "graduatedFrom → diedIn",
    "graduatedFrom → hasWonPrize",
    "wasBornIn → graduatedFrom",
    "wasBornIn → diedIn",
    "wasBornIn → isAffiliatedTo",
    "wasBornIn → hasWonPrize",
    "wasBornIn → playsFor",
    "wasBornIn → worksAt",
    "wasBornIn → isMarriedTo",
    "isAffiliatedTo → diedIn",
    "worksAt → diedIn",
    "isMarriedTo → diedIn",
}
WIKIDATA = {
    "educated at → position held",
    "educated at → employer",
    "educated at → member of",
    "educated at → award received",
    "educated at → academic degree",
    "educated at → nominated for",
    "instance of → head of government",
    "residence → award received",
    "academic degree → nominated for",
    "spouse → position held",
    "located in the administrative territorial entity → award received",
}


def texts(kb: TemporalKB, orderings: list[Ordering]) -> set[str]:
    return {ordering.text(kb.relations) for ordering in orderings}


def counts_of(kb: TemporalKB, wanted: set[str], strict: bool = False) -> dict[str, tuple[int, int, int]]:
    """(holds, cases, entities) of some pairs of relations."""
    every = {ordering.text(kb.relations): ordering for ordering in count(kb.train, strict=strict)}
    return {text: (every[text].holds, every[text].cases, every[text].entities) for text in wanted}


def test_the_papers_list_of_yago11k() -> None:
    kb = benchmark("yago11k")
    assert texts(kb, mine(kb.train)) == YAGO


def test_the_papers_list_of_wikidata12k_but_for_three() -> None:
    kb = benchmark("wikidata12k")
    found = texts(kb, mine(kb.train))
    assert found < WIKIDATA
    assert counts_of(kb, WIKIDATA - found) == {
        "educated at → member of": (17, 17, 11),  # four more cases have a begin that is not known
        "residence → award received": (45, 46, 16),  # a residence of 2017, an award of 1990
        "educated at → academic degree": (29, 30, 16),  # a year at Bonn, 1892, after a degree of 1891
    }


def test_open_begins_taken_for_early_ones_bring_one_pair_back() -> None:
    """What the published files do, which have the year 0 for a begin that is not known."""
    kb = benchmark("wikidata12k")
    train = kb.train
    early = Facts(train.s, train.r, train.o, np.where(train.begin == OPEN, 0, train.begin), train.end)
    assert texts(kb, mine(early, entities=1)) == WIKIDATA - {
        "residence → award received",
        "educated at → academic degree",
    }


def test_one_subject_is_what_one_more_would_come_from() -> None:
    kb = benchmark("wikidata12k")
    extra = texts(kb, mine(kb.train, entities=1)) - WIKIDATA
    assert counts_of(kb, extra) == {"member of → contains the administrative territorial entity": (120, 120, 1)}


def test_the_papers_words_do_not_give_its_lists() -> None:
    """t₁ < t₂ and a hundred entities: eight pairs of YAGO11k and none of WIKIDATA12k."""
    found = {
        name: texts(benchmark(name), mine(benchmark(name).train, cases=1, entities=100, strict=True))
        for name in ("yago11k", "wikidata12k")
    }
    assert found["wikidata12k"] == set()
    assert found["yago11k"] < YAGO
    assert counts_of(benchmark("yago11k"), YAGO - found["yago11k"], strict=True) == {
        "wasBornIn → worksAt": (88, 88, 46),
        "worksAt → diedIn": (41, 41, 24),
        "graduatedFrom → hasWonPrize": (128, 129, 64),
        "isMarriedTo → diedIn": (481, 486, 452),
    }


def test_a_survey_is_what_all_orderings_come_to(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = generate(1000, seed=3).train
    relations = int(facts.r.max()) + 1
    everything = count(facts)
    monkeypatch.setattr("timeplex.patterns.orderings.BLOCK", 50)
    found, (cases, first, last) = survey(facts, relations, cases=20, entities=2)
    assert found == [each for each in everything if each.cases >= 20 and each.entities >= 2]
    for relation in range(relations):
        assert cases[relation] == sum(each.cases for each in everything if each.first == relation)
        assert first[relation] == sum(each.holds for each in everything if each.first == relation)
        assert last[relation] == sum(each.holds for each in everything if each.second == relation)
