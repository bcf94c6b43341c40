"""Statistics against plain counting, and the published figures of a benchmark."""

import json
import re
import statistics
from collections import Counter
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.benchmark_data import need_data
from tests.kb.random_kbs import Row, kb_of, kbs, problem, rows

from timeplex.datasets.benchmarks import load
from timeplex.kb import dates
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import TemporalKB
from timeplex.kb.problems import Action, Kind, Problems
from timeplex.kb.spans import OPEN_BEGIN, OPEN_END
from timeplex.kb.split import leakage
from timeplex.kb.stats import Stats, describe
from timeplex.sources import read

IN_A_YEAR = {Granularity.YEAR: 1, Granularity.MONTH: 12, Granularity.DAY: 365}


def is_known(fact: Row) -> bool:
    return fact[3] != OPEN_BEGIN and fact[4] != OPEN_END


@given(kbs(most=20))
def test_counts(kb: TemporalKB) -> None:
    stats, facts = describe(kb), list(kb.facts)
    known = [fact for fact in facts if is_known(fact)]
    instants = {end for fact in facts for end in fact[3:]} - {OPEN_BEGIN, OPEN_END}
    assert (stats.name, stats.granularity) == (kb.name, kb.granularity.value)
    assert stats.facts == len(facts) == sum(stats.splits.values())
    assert stats.splits == {split: len(part) for split, part in kb.splits.items()}
    assert (stats.entities, stats.relations) == (5, 3)
    assert stats.instants == len(instants)
    bounds = dates.write([min(instants), max(instants)], kb.granularity) if instants else [None, None]
    assert [stats.first, stats.last] == bounds
    assert stats.both_ends_known == len(known)
    assert stats.events == sum(begin == end for *_, begin, end in known)
    assert stats.recurring_triples == sum(count > 1 for count in Counter(fact[:3] for fact in facts).values())
    assert stats.leakage == leakage(kb)
    assert stats.rows_read == kb.problems.rows_read
    problems = kb.problems.frame
    assert stats.problems == dict(Counter(problems["kind"]))
    assert stats.rows_set_aside == problems["action"].to_list().count("set aside")


@given(rows(most=20))
def test_open_ends(facts: list[Row]) -> None:
    stats = describe(kb_of(facts))
    assert stats.open_begins == sum(fact[3] == OPEN_BEGIN for fact in facts)
    assert stats.open_ends == sum(fact[4] == OPEN_END for fact in facts)
    assert (stats.unusable_begins, stats.unusable_ends, stats.reversed_spans) == (0, 0, 0)


@given(kbs(most=20))
def test_relations(kb: TemporalKB) -> None:
    found = describe(kb).by_relation
    by_relation: dict[int, list[Row]] = {}
    for fact in kb.facts:
        by_relation.setdefault(fact[1], []).append(fact)
    order = sorted(by_relation, key=lambda relation: (-len(by_relation[relation]), kb.relations[relation]))
    assert [row.relation for row in found] == [kb.relations[relation] for relation in order]
    for row, relation in zip(found, order, strict=True):
        facts = by_relation[relation]
        durations = [end - begin + 1 for *_, begin, end in filter(is_known, facts)]
        assert row.label == kb.relations.label(relation)
        assert row.facts == len(facts)
        assert row.median_duration == (statistics.median(durations) if durations else None)
        assert row.share_of_events == pytest.approx(durations.count(1) / len(durations) if durations else 0)
        assert row.open_begins == pytest.approx(sum(fact[3] == OPEN_BEGIN for fact in facts) / len(facts))
        assert row.open_ends == pytest.approx(sum(fact[4] == OPEN_END for fact in facts) / len(facts))


@settings(max_examples=20)
@given(kbs())
def test_json_holds_everything(kb: TemporalKB) -> None:
    stats = describe(kb)
    plain = json.loads(json.dumps(stats.to_json()))
    assert set(plain) == set(Stats.__dataclass_fields__)
    assert plain["facts"] == len(kb)
    assert [row["relation"] for row in plain["by_relation"]] == [row.relation for row in stats.by_relation]


# The histogram


@st.composite
def dated_kbs(draw: st.DrawFn) -> TemporalKB:
    """Dates from a few days to twenty thousand years apart, with stragglers."""
    granularity = draw(st.sampled_from(Granularity))
    least, most = -9000 * IN_A_YEAR[granularity], 9000 * IN_A_YEAR[granularity]
    low, width = draw(st.integers(least, most)), draw(st.sampled_from([1, 5, 40, 400, 10**5, 10**7]))
    near = st.integers(low, min(low + width, most))
    instants = draw(st.lists(near, max_size=60)) + draw(st.lists(st.integers(least, most), max_size=2))
    ends = st.sampled_from([lambda at: (at, OPEN_END), lambda at: (OPEN_BEGIN, at), lambda at: (at, at + 1)])
    facts = [(0, 0, 1, *draw(ends)(instant)) for instant in instants]
    undated = [(0, 0, 1, OPEN_BEGIN, OPEN_END)] * draw(st.integers(0, 2))
    return kb_of(facts + undated, granularity=granularity)


def days_of(text: str) -> tuple[int, int]:
    """First and last day of a written date, whose year may have more digits than is usual."""
    year, month, day = (int(part or 0) for part in re.fullmatch(r"(-?\d+)(?:-(\d\d))?(?:-(\d\d))?", text).groups())
    last_month = month or 12
    last_day = day or dates.days_in_month(year, last_month)
    return int(dates.day_number(year, month or 1, day or 1)), int(dates.day_number(year, last_month, last_day))


def dates_of(kb: TemporalKB) -> list[tuple[int, int]]:
    """First and last day of the begin of each fact, or of its end if it has no begin."""
    when = [begin if begin != OPEN_BEGIN else end for *_, begin, end in kb.facts]
    return [days_of(text) for text in dates.write([at for at in when if at != OPEN_END], kb.granularity)]


@given(dated_kbs(), st.integers(1, 30))
def test_bins_are_contiguous_and_each_has_the_facts_of_its_days(kb: TemporalKB, bars: int) -> None:
    bins, when = describe(kb, bars).histogram, dates_of(kb)
    assert len(bins) <= bars
    assert sum(number for *_, number in bins) == len(when)
    assert bool(bins) == bool(when)
    days = [(days_of(first)[0], days_of(last)[1]) for first, last, _ in bins]
    assert all(first <= last for first, last in days)
    assert all(last + 1 == first for (_, last), (first, _) in pairwise(days))
    assert len({text.lstrip("-").count("-") for first, last, _ in bins for text in (first, last)}) <= 1
    inside = [sum(first <= begin and end <= last for begin, end in when) for first, last in days]
    assert [number for *_, number in bins] == inside


def test_bins_by_hand() -> None:
    facts = [(0, 0, 1, year, year) for year in (1990, 1991, 1994, 1997, 1997)]
    assert describe(kb_of(facts), bars=8).histogram[0] == ("1990", "1990", 1)
    assert len(describe(kb_of(facts), bars=8).histogram) == 8
    for bars in (4, 5, 6, 7):
        assert describe(kb_of(facts), bars).histogram == [
            ("1990", "1991", 2),
            ("1992", "1993", 0),
            ("1994", "1995", 1),
            ("1996", "1997", 2),
        ]
    assert describe(kb_of(facts), bars=1).histogram == [("1990", "1999", 5)]
    assert describe(kb_of(facts), bars=0).histogram == []


def test_one_bar_holds_both_sides_of_the_year_0() -> None:
    facts = [(0, 0, 1, year, year) for year in (-50, 50)]
    ((_, _, number),) = describe(kb_of(facts), bars=1).histogram
    assert number == 2


def test_stragglers_are_in_the_outermost_bins() -> None:
    facts = [(0, 0, 1, year, year) for year in range(1900, 2000)] + [(0, 0, 1, 2844, 2844), (0, 0, 1, -431, -431)]
    bins = describe(kb_of(facts), bars=10).histogram
    assert (bins[0], bins[-1]) == (("-431", "1909", 11), ("1990", "2844", 11))


# Ends that could not be used


def test_ends_that_the_source_does_not_state_are_told_from_those_of_no_use(tmp_path: Path) -> None:
    path = tmp_path / "facts.txt"
    path.write_text(
        "a\tr\tb\t19##\t1950\n"
        "a\tr\tc\tsoon\t1950\n"
        "a\tr\td\t####\t1950\n"
        "a\tr\te\t1950\t1940\n"
        "a\tr\tf\t1950\t####\n"
        "a\tr\tg\t1950\t19##\n"
    )
    stats = describe(read(path))
    assert (stats.open_begins, stats.unusable_begins) == (1, 2)
    assert (stats.open_ends, stats.unusable_ends) == (1, 1)
    assert stats.reversed_spans == 1


def test_copies_that_were_set_aside_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "facts.txt"
    path.write_text("a\tr\tb\t19##\t1950\n" * 3 + "a\tr\tc\t####\t1950\n" * 2 + "a\tr\te\t1950\t1940\n" * 2)
    stats = describe(read(path))
    assert (stats.facts, stats.rows_set_aside) == (3, 4)
    assert (stats.open_begins, stats.unusable_begins, stats.reversed_spans) == (1, 1, 1)


def test_a_kind_of_problem_is_counted_whatever_was_done() -> None:
    frames = [
        problem(number, Kind.COLUMN_COUNT, action, "", "why", "row")
        for number, action in enumerate((Action.KEPT, Action.SET_ASIDE, Action.SET_ASIDE))
    ]
    stats = describe(kb_of([], problems=Problems(pl.concat(frames), 3)))
    assert stats.problems == {"wrong column count": 3}


# A benchmark


def test_yago11k_has_the_figures_of_its_readme() -> None:
    stats = describe(load("yago11k", need_data("yago11k")))
    assert (stats.facts, stats.entities, stats.relations) == (20_509, 10_623, 10)
    assert stats.splits == {"train": 16_408, "valid": 2_050, "test": 2_051}
    assert (stats.open_begins, stats.open_ends, stats.reversed_spans) == (0, 8_997, 70)
    assert (stats.unusable_begins + stats.unusable_ends, stats.recurring_triples) == (18, 0)
    # The files have 396 distinct years; 16 of them are only ends before their begin, which are not kept.
    assert (stats.first, stats.last, stats.instants) == ("-431", "2844", 380)
    assert stats.rows_set_aside == 0
    facts = {row.relation: row.facts for row in stats.by_relation}
    assert (facts["wasBornIn"], facts["diedIn"]) == (3_341, 1_643)
    assert [row.share_of_events for row in stats.by_relation if row.relation in ("wasBornIn", "diedIn")] == [1, 1]
    valid, test = stats.leakage
    assert (valid.unseen_entity, test.unseen_entity) == (10, 5)
    # With the same dates there are 145; by year a few more agree.
    assert (test.mirrored, test.mirrored_same_span, test.same_triple) == (172, 151, 0)
