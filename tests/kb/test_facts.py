"""Facts and KBs: look-ups against a scan over all facts, equality and digest by what is said."""

from dataclasses import replace
from itertools import product

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kb.random_kbs import Row, facts_of, kb_of, kbs, labelled, named, rows

from timeplex.kb.dates import Granularity
from timeplex.kb.facts import SPLITS, Facts, Index, TemporalKB, pair_key, split_key
from timeplex.kb.names import Names
from timeplex.kb.problems import Problems
from timeplex.kb.spans import OPEN_BEGIN, OPEN_END

ENTITIES, RELATIONS = range(-1, 7), range(-1, 5)  # with some that have no fact
COLUMNS = ("s", "r", "o", "begin", "end")

# Facts


@given(rows())
def test_facts_are_their_rows(facts: list[Row]) -> None:
    stored = facts_of(facts)
    assert len(stored) == len(facts)
    assert list(stored) == facts
    assert list(zip(*(part.tolist() for part in stored.span), strict=True)) == [row[3:] for row in facts]
    for number, column in enumerate(COLUMNS):
        values = getattr(stored, column)
        assert values.dtype == np.int32
        assert values.flags.c_contiguous
        assert values.tolist() == [row[number] for row in facts]


@pytest.mark.parametrize("column", COLUMNS)
def test_columns_are_read_only(column: str) -> None:
    for facts in (facts_of([(0, 0, 1, 5, 6)]), facts_of([(0, 0, 1, 5, 6)] * 3)[1:], Facts.empty()):
        with pytest.raises(ValueError, match="read-only"):
            getattr(facts, column)[:] = 7
        with pytest.raises(AttributeError):
            setattr(facts, column, np.zeros(1, np.int32))


@given(rows(), rows(), st.data())
def test_parts_and_sums_of_facts(one: list[Row], other: list[Row], data: st.DataObject) -> None:
    together = facts_of(one) + facts_of(other)
    assert list(together) == one + other
    mask = data.draw(st.lists(st.booleans(), min_size=len(together), max_size=len(together)))
    chosen = [row for row, taken in zip(one + other, mask, strict=True) if taken]
    assert list(together[np.array(mask, bool)]) == chosen
    assert list(together[np.flatnonzero(mask)]) == chosen
    assert list(together[1:-1]) == (one + other)[1:-1]


@given(rows())
def test_look_ups_find_what_a_scan_finds(facts: list[Row]) -> None:
    stored = facts_of(facts)
    numbered = [(number, *row[:3]) for number, row in enumerate(facts)]
    for entity, relation in product(ENTITIES, RELATIONS):
        expected = [row for row, s, r, _ in numbered if (s, r) == (entity, relation)]
        assert stored.of_subject_relation(entity, relation).tolist() == expected
        expected = [row for row, _, r, o in numbered if (r, o) == (relation, entity)]
        assert stored.of_relation_object(relation, entity).tolist() == expected
    for entity in ENTITIES:
        assert stored.of_entity(entity).tolist() == [row for row, s, _, o in numbered if entity in (s, o)]
    for one, other in product(ENTITIES, ENTITIES):
        expected = [row for row, s, _, o in numbered if {s, o} == {one, other}]
        assert stored.of_pair(one, other).tolist() == expected
    s, r, o = np.array([*product(ENTITIES, RELATIONS, ENTITIES)]).T
    place, row = stored.of_triples(s, r, o)
    stated = [[number for number, *own in numbered if own == [*triple]] for triple in zip(s, r, o, strict=True)]
    assert sorted(zip(place.tolist(), row.tolist(), strict=True)) == [
        (at, number) for at, numbers in enumerate(stated) for number in numbers
    ]
    assert stored.states(s, r, o).tolist() == [bool(numbers) for numbers in stated]


@given(rows())
def test_many_keys_at_once(facts: list[Row]) -> None:
    stored = facts_of(facts)
    entity, relation = np.meshgrid(ENTITIES, RELATIONS)
    index = stored.by_subject_relation
    start, stop = index.ranges(pair_key(entity, relation))
    assert start.shape == stop.shape == entity.shape
    for at in np.ndindex(entity.shape):
        found = index.order[start[at] : stop[at]].tolist()
        assert found == stored.of_subject_relation(int(entity[at]), int(relation[at])).tolist()
    assert index.ranges([])[0].shape == (0,)


@given(st.lists(st.integers(-(2**62), 2**62) | st.integers(-2, 2), max_size=20))
def test_an_index_groups_all_rows_by_key(keys: list[int]) -> None:
    index = Index(np.array(keys, np.int64))
    assert index.keys.tolist() == sorted(set(keys))
    for key in {*keys, 3, -(2**63)}:
        assert index.rows(key).tolist() == [row for row, own in enumerate(keys) if own == key]
    assert sorted(index.order.tolist()) == list(range(len(keys)))


NUMBERS = st.sampled_from([0, 1, 2**31 - 2, 2**31 - 1]) | st.integers(0, 2**31 - 1)


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_pair_keys_are_equal_only_for_equal_pairs(a: int, b: int, c: int, d: int) -> None:
    assert (pair_key(a, b) == pair_key(c, d)) == ((a, b) == (c, d))
    assert (pair_key(a, b) < pair_key(c, d)) == ((a, b) < (c, d))


# KBs


def shuffled(kb: TemporalKB, seed: int) -> TemporalKB:
    random = np.random.default_rng(seed)
    splits = {split: facts[random.permutation(len(facts))] for split, facts in kb.splits.items()}
    return replace(kb, splits=dict(reversed(splits.items())), name="another name", problems=Problems.none(7))


@given(kbs(), st.integers(0, 9))
def test_order_name_and_problems_do_not_matter(kb: TemporalKB, seed: int) -> None:
    other = shuffled(kb, seed)
    assert other == kb
    assert other.digest == kb.digest


@given(kbs(most=3), kbs(most=3), st.booleans())
def test_equal_is_what_says_the_same(kb: TemporalKB, other: TemporalKB, alike: bool) -> None:
    if alike:  # two KBs drawn apart are hardly ever alike but for their facts
        other = replace(other, entities=kb.entities, relations=kb.relations, granularity=kb.granularity)
    same_facts = named(kb) == named(other)
    same_words = [*kb.entities] == [*other.entities] and [*kb.relations] == [*other.relations]
    same_labels = (kb.entities.labels, kb.relations.labels) == (other.entities.labels, other.relations.labels)
    assert (kb == other) == (same_facts and same_words and same_labels and kb.granularity == other.granularity)


FACT = (0, 1, 2, 1990, 1995)


@pytest.mark.parametrize("row", [(3, 1, 2, 1990, 1995), (0, 0, 2, 1990, 1995), (0, 1, 3, 1990, 1995)])
@pytest.mark.parametrize("more", [[], [(4, 4, 4, 1, 1)]])
def test_another_name_makes_another_kb(row: Row, more: list[Row]) -> None:
    assert kb_of([FACT, *more]) != kb_of([row, *more])
    assert kb_of([FACT, *more]).digest != kb_of([row, *more]).digest


@pytest.mark.parametrize("span", [(1991, 1995), (1990, 1994), (OPEN_BEGIN, 1995), (1990, OPEN_END)])
def test_another_span_makes_another_kb(span: tuple[int, int]) -> None:
    other = kb_of([(*FACT[:3], *span)])
    assert kb_of([FACT]) != other
    assert kb_of([FACT]).digest != other.digest


def test_how_often_a_fact_stands_matters() -> None:
    twice = kb_of([FACT, FACT, (4, 4, 4, 1, 1)]), kb_of([FACT, (4, 4, 4, 1, 1), (4, 4, 4, 1, 1)])
    assert twice[0] != twice[1]
    assert twice[0].digest != twice[1].digest
    assert twice[0] != kb_of([FACT, (4, 4, 4, 1, 1)])


def test_split_granularity_and_labels_matter() -> None:
    kb = kb_of({"train": [FACT], "test": []})
    moved = kb_of({"train": [], "test": [FACT]})
    assert kb != moved
    assert kb.digest != moved.digest
    assert kb != kb_of({"train": [FACT]})
    by_month = replace(kb, granularity=Granularity.MONTH)
    assert kb != by_month
    assert kb.digest != by_month.digest
    assert kb != replace(kb, entities=Names(kb.entities.names, {"e0": "zero"}))
    assert kb != replace(kb, relations=Names(kb.relations.names, {"r0": "zero"}))
    assert kb != "kb"


def test_separators_in_names_do_not_deceive_the_digest() -> None:
    def kb(*names: str) -> TemporalKB:
        s, r, o = names
        entities = Names(pl.Series([s, o]))
        facts = facts_of([(entities.id(s), 0, entities.id(o), 1, 2)])
        return TemporalKB(entities, Names(pl.Series([r])), Granularity.YEAR, {"train": facts}, Problems.none())

    for separator in ("\x1f", "\x1e", "\t", "\n", ":", "1:", "\0", ","):
        together, apart = kb(f"a{separator}b", "c", "d"), kb("a", f"b{separator}c", "d")
        assert together.digest != apart.digest


@given(kbs())
def test_tables_have_names_and_written_dates(kb: TemporalKB) -> None:
    kb = replace(kb, granularity=Granularity.YEAR)
    expected = [
        (split, *names, None if begin == OPEN_BEGIN else str(begin), None if end == OPEN_END else str(end))
        for split, facts in named(kb).items()
        for *names, begin, end in facts
    ]
    table = kb.to_polars()
    assert table.columns == ["split", "subject", "relation", "object", "begin", "end"]
    assert set(table.dtypes) == {pl.String}
    assert sorted(table.rows(), key=repr) == sorted(expected, key=repr)
    pandas = pytest.importorskip("pandas")
    frame = kb.to_pandas()
    assert list(frame.columns) == table.columns
    plain = [tuple(None if pandas.isna(value) else value for value in row) for row in frame.itertuples(index=False)]
    assert plain == table.rows()


def test_tables_keep_the_order_and_write_by_granularity() -> None:
    kb = kb_of({"train": [(1, 0, 0, 31, OPEN_END), (0, 0, 1, OPEN_BEGIN, -1)]}, granularity=Granularity.DAY)
    assert kb.to_polars().rows() == [
        ("train", "e1", "r0", "e0", "1970-02-01", None),
        ("train", "e0", "r0", "e1", None, "1969-12-31"),
    ]


@given(st.dictionaries(st.sampled_from(SPLITS), rows(most=4)))
def test_splits(parts: dict[str, list[Row]]) -> None:
    kb = kb_of({"train": [], **parts})
    assert list(kb.train) == parts.get("train", [])
    assert list(kb.valid) == parts.get("valid", [])
    assert list(kb.test) == parts.get("test", [])
    assert list(kb.facts) == [row for split in SPLITS for row in parts.get(split, [])]
    assert len(kb) == len(kb.facts)


def test_a_kb_introduces_itself() -> None:
    kb = kb_of({"train": [FACT] * 1234, "test": [FACT]})
    assert repr(kb) == "TemporalKB(random: 10 entities, 10 relations, train 1,234, test 1 facts, by year)"


@given(labelled(4))
def test_a_kb_cannot_be_a_key(names: Names) -> None:
    kb = replace(kb_of([]), entities=names)
    for value in (kb, names, kb.timeline()):
        with pytest.raises(TypeError, match="unhashable"):
            hash(value)


@given(rows())
def test_which_dates_are_known(facts: list[Row]) -> None:
    stored = facts_of(facts)
    known = [(row[3] != OPEN_BEGIN, row[4] != OPEN_END) for row in facts]
    assert stored.closed.tolist() == [all(ends) for ends in known]
    assert stored.dated.tolist() == [any(ends) for ends in known]
    expected = [row[3] if begins else row[4] for row, (begins, _) in zip(facts, known, strict=True)]
    assert stored.date.tolist() == expected


def test_a_key_is_split_again() -> None:
    first, second = np.array([0, 5, 2**31 - 1]), np.array([2**31 - 1, 0, 7])
    assert [part.tolist() for part in split_key(pair_key(first, second))] == [first.tolist(), second.tolist()]
