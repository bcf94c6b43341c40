"""Classes of relations by duration: by hand in every granularity, and those of the paper."""

from dataclasses import replace

import pytest
from tests.benchmark_data import need_data
from tests.builders import kb_of

from timeplex.datasets.benchmarks import load
from timeplex.kb import spans
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import TemporalKB
from timeplex.patterns.relation_classes import RELATION_CLASSES, relation_classes

NO_BEGIN, NO_END = spans.OPEN_BEGIN, spans.OPEN_END


def kb_with(spans_by_relation: list[list[tuple[int, int]]], granularity: Granularity = Granularity.YEAR) -> TemporalKB:
    """A KB in which relation r has these spans."""
    pairs = [(r, span) for r, some in enumerate(spans_by_relation) for span in some]
    rows = [(0, r, 1 + number, *span) for number, (r, span) in enumerate(pairs)]
    return kb_of(rows, len(rows) + 1, len(spans_by_relation), granularity)


def test_by_hand() -> None:
    kb = kb_with(
        [
            [(1950, 1950)] * 19 + [(1950, 1990)],  # 5 % last
            [(1950, 1950)] * 18 + [(1950, 1990)],  # 5.3 % last, 40 / 19 years in the mean
            [(1950, 1954), (1960, 1965)],  # 4.5 years
            [(1950, 1954), (1960, 1966)],  # 5 years
            [(1950, NO_END)] * 20 + [(NO_BEGIN, 1970)],
            [(1950, NO_END)] * 10 + [(1950, 1953)],  # open ends do not count as 0 years …
            [(1950, NO_END)] * 10 + [(1950, 1956)],  # … nor as any
            [(NO_BEGIN, NO_END)] * 3,
            [],
        ]
    )
    classes = relation_classes(kb)
    assert classes.tolist() == [
        *("instant", "short", "short", "long", "instant", "short", "long", "undated", "undated"),
    ]
    assert set(classes.tolist()) == set(RELATION_CLASSES)


def test_facts_without_any_date_do_not_make_a_relation_instant() -> None:
    assert relation_classes(kb_with([[(NO_BEGIN, NO_END)] * 100 + [(1950, 1952)]])).tolist() == ["short"]


@pytest.mark.parametrize(
    ("granularity", "below"), [(Granularity.YEAR, 4), (Granularity.MONTH, 59), (Granularity.DAY, 1826)]
)
def test_five_years_are_five_years(granularity: Granularity, below: int) -> None:
    assert relation_classes(kb_with([[(0, below)], [(0, below + 1)]], granularity)).tolist() == ["short", "long"]


def test_only_training_facts_count() -> None:
    kb = kb_with([[(1950, 1950)], [(1950, 1980)]])
    only = replace(kb, splits={"train": kb.train[:1], "valid": kb.train[1:]})
    assert relation_classes(only).tolist() == ["instant", "undated"]


def test_the_classes_of_the_paper() -> None:
    kb = load("yago11k", need_data("yago11k"))
    classes = dict(zip(kb.relations, relation_classes(kb).tolist(), strict=True))
    paper = {
        **dict.fromkeys(("wasBornIn", "diedIn", "hasWonPrize"), "instant"),
        **dict.fromkeys(("graduatedFrom", "playsFor"), "short"),
        **dict.fromkeys(("isMarriedTo", "isAffiliatedTo"), "long"),
    }
    not_in_the_paper = dict.fromkeys(("created", "owns", "worksAt"), "long")
    assert classes == paper | not_in_the_paper
