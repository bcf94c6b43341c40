"""Splits are partitions that keep their promises; leakage against a scan over all pairs of facts."""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.kb.random_kbs import Row, kb_of, kbs, named, rows

from timeplex.datasets.synthetic import generate
from timeplex.errors import InputError
from timeplex.kb.facts import SPLITS, TemporalKB
from timeplex.kb.spans import OPEN_BEGIN, OPEN_END
from timeplex.kb.split import leakage, split_by_time, split_randomly

SHARES = st.tuples(st.floats(0, 0.99), st.floats(0, 0.99)).filter(lambda shares: sum(shares) < 1)
SEEDS = st.integers(0, 2**32)
Split = Callable[[TemporalKB, float, float], TemporalKB]


def assert_partition(parts: TemporalKB, kb: TemporalKB) -> None:
    """All facts of all splits, each in one part as often as before; names and the rest untouched."""
    assert [*parts.splits] == [*SPLITS]
    assert Counter(parts.facts) == Counter(kb.facts)
    for kept in ("entities", "relations", "granularity", "problems", "name"):
        assert getattr(parts, kept) is getattr(kb, kept)


# At random


@given(kbs(), SHARES, SEEDS)
def test_a_random_split_is_a_partition(kb: TemporalKB, shares: tuple[float, float], seed: int) -> None:
    assert_partition(split_randomly(kb, *shares, seed), kb)


@given(rows(most=25), SHARES, SEEDS)
@example([(0, 0, 0, 1, 1)] * 2, (0.5, 0.4), 0)
@example([(0, 0, 0, 1, 1)], (0.9, 0), 0)
@example([(0, 0, 0, 1, 1), (1, 0, 2, 1, 1)], (0.4, 0), 0)  # the one fact of 0 counts 0 twice
@example([(0, 0, 0, 1, 1), (0, 0, 1, 1, 1)], (0.4, 0.4), 1)
@example([], (0.1, 0.1), 0)
def test_nothing_in_valid_or_test_is_unseen(facts: list[Row], shares: tuple[float, float], seed: int) -> None:
    parts = split_randomly(kb_of(facts), *shares, seed)
    entities = {entity for s, _, o, *_ in parts.train for entity in (s, o)}
    relations = {r for _, r, *_ in parts.train}
    for s, r, o, *_ in [*parts.valid, *parts.test]:
        assert {s, o} <= entities
        assert r in relations
    assert len(parts.valid) <= round(len(facts) * shares[0])
    assert len(parts.test) <= round(len(facts) * shares[1])


@given(rows(most=25), SHARES, SEEDS)
def test_no_more_could_leave_train(facts: list[Row], shares: tuple[float, float], seed: int) -> None:
    """If the shares are not met, every fact that is left is the last of an entity or a relation."""
    parts = split_randomly(kb_of(facts), *shares, seed)
    if len(parts.valid) + len(parts.test) == sum(round(len(facts) * share) for share in shares):
        return
    train = list(parts.train)
    for at, (s, r, o, *_) in enumerate(train):
        rest = train[:at] + train[at + 1 :]
        entities = {entity for row in rest for entity in (row[0], row[2])}
        assert not ({s, o} <= entities and r in {row[1] for row in rest})


@given(st.integers(0, 60), SHARES, SEEDS)
def test_shares_are_met_when_nothing_is_in_the_way(size: int, shares: tuple[float, float], seed: int) -> None:
    facts = [(0, 0, 1, year, year) for year in range(size)]
    parts = split_randomly(kb_of(facts), *shares, seed)
    valid, test = (round(size * share) for share in shares)
    if valid + test < size:
        assert (len(parts.valid), len(parts.test)) == (valid, test)
    else:  # rounded up, they would leave nothing
        assert len(parts.train) == min(size, 1)


def test_rounding_is_of_each_share() -> None:
    facts = [(0, 0, 1, year, year) for year in range(10)]
    parts = split_randomly(kb_of(facts), valid=0.15, test=0.05)
    assert (len(parts.valid), len(parts.test)) == (round(1.5), round(0.5)) == (2, 0)


def test_what_must_stay_takes_from_both_in_proportion() -> None:
    # Of 38 facts 34 are to leave. But 30 may, all but one of the first pair; each of the others holds an entity.
    facts = [(0, 0, 1, year, year) for year in range(31)] + [(2, 0, number, 1, 1) for number in range(3, 10)]
    parts = split_randomly(kb_of(facts), 0.6, 0.3)
    assert (len(parts.valid), len(parts.test)) == (20, 10)


@settings(max_examples=30)
@given(kbs(), SEEDS)
def test_one_seed_is_one_split(kb: TemporalKB, seed: int) -> None:
    one, same = (split_randomly(kb, 0.3, 0.3, seed) for _ in range(2))
    assert [list(one.splits[split]) for split in SPLITS] == [list(same.splits[split]) for split in SPLITS]


def test_another_seed_is_another_split_and_all_facts_have_their_chance() -> None:
    kb = generate(500, seed=1)
    tested = Counter(fact for seed in range(40) for fact in split_randomly(kb, 0.1, 0.1, seed).test)
    first, second = (split_randomly(kb, 0.1, 0.1, seed) for seed in (0, 1))
    assert named(first) != named(second)
    # Facts in the first and in the second half are chosen alike (a fact 4 times of 40 on average).
    numbers = {fact: at for at, fact in enumerate(kb.facts)}
    early = sum(count for fact, count in tested.items() if numbers[fact] < 250)
    assert len(tested) > 300
    assert 0.3 < early / tested.total() < 0.7


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(InputError, match="seed cannot be -1"):
        split_randomly(kb_of([(0, 0, 1, 1, 1)]), seed=-1)


# By time


def date_of(fact: Row) -> int | None:
    *_, begin, end = fact
    if begin != OPEN_BEGIN:
        return begin
    return None if end == OPEN_END else end


def only_at_one_instant(facts: list[Row]) -> bool:
    instants = {date_of(fact) for fact in facts}
    return len(instants) == 1 and None not in instants


@given(kbs(), SHARES)
def test_a_split_by_time_is_a_partition_in_order(kb: TemporalKB, shares: tuple[float, float]) -> None:
    facts = list(kb.facts)
    if only_at_one_instant(facts):
        return
    parts = split_by_time(kb, *shares)
    assert_partition(parts, kb)
    dates = {split: [date_of(fact) for fact in parts.splits[split]] for split in SPLITS}
    assert None not in dates["valid"] + dates["test"]
    latest = None
    for split in SPLITS:
        known = [date for date in dates[split] if date is not None]
        if known:
            assert latest is None or latest < min(known)  # facts of one instant stay together
            latest = max(known)
    assert not facts or len(parts.train)


@given(rows(most=25), SHARES)
def test_shares_are_met_as_closely_as_instants_allow(facts: list[Row], shares: tuple[float, float]) -> None:
    if only_at_one_instant(facts):
        return
    parts = split_by_time(kb_of(facts), *shares)
    valid, test = (round(len(facts) * share) for share in shares)
    known = Counter(date_of(fact) for fact in facts if date_of(fact) is not None)
    undated = any(date_of(fact) is None for fact in facts)
    # Literally: all ways to cut off the last instants, an instant (or the undated) left for each part asked for.
    instants = sorted(known)
    for split, wanted, before in (("test", test, 1 + (valid > 0)), ("valid", valid, 1)):
        if not wanted:
            assert len(parts.splits[split]) == 0
            continue
        spare = len(instants) + undated - before
        if spare < 1 and len(instants) + undated > 1:
            spare = 1
        sizes = [sum(known[instant] for instant in instants[-count:]) for count in range(1, spare + 1)]
        if not sizes:
            assert len(parts.splits[split]) == 0
            continue
        size = len(parts.splits[split])
        assert size in sizes
        assert abs(size - wanted) == min(abs(other - wanted) for other in sizes)
        instants = instants[: len(instants) - 1 - sizes.index(size)]


def test_closest_is_not_always_at_least() -> None:
    facts = [(0, 0, 1, year, year) for year, count in ((1990, 50), (1991, 40), (1992, 10)) for _ in range(count)]
    parts = split_by_time(kb_of(facts), valid=0, test=0.12)
    assert len(parts.test) == 10  # 12 facts would begin a year earlier, with 50
    parts = split_by_time(kb_of(facts), valid=0.1, test=0.1)
    assert (len(parts.train), len(parts.valid), len(parts.test)) == (50, 40, 10)


def test_train_keeps_an_instant() -> None:
    facts = [(0, 0, 1, year, year) for year in (1990, 1991) for _ in range(5)]
    parts = split_by_time(kb_of(facts), valid=0.1, test=0.8)
    assert (len(parts.train), len(parts.valid), len(parts.test)) == (5, 0, 5)


def test_open_ends_by_hand() -> None:
    facts = [
        (0, 0, 1, OPEN_BEGIN, OPEN_END),
        (0, 0, 2, 1990, OPEN_END),
        (0, 0, 3, OPEN_BEGIN, 2001),
        (0, 0, 4, 1980, 2020),
    ]
    parts = split_by_time(kb_of(facts), 0.25, 0.25)
    assert [fact[2] for fact in parts.train] == [1, 4]
    assert [fact[2] for fact in parts.valid] == [2]
    assert [fact[2] for fact in parts.test] == [3]


def test_one_instant_cannot_be_split() -> None:
    kb = kb_of([(0, 0, 1, 1990, 1990), (0, 0, 2, 1990, 1999)])
    with pytest.raises(InputError, match="All facts of random begin at 1990") as caught:
        split_by_time(kb, 0, 0.5)
    assert "at random" in caught.value.hint
    assert len(split_by_time(kb, 0, 0).train) == 2
    undated = kb_of([(0, 0, 1, OPEN_BEGIN, OPEN_END)] * 10)
    assert len(split_by_time(undated).train) == 10
    assert len(split_by_time(kb_of([]))) == 0


# Both


@pytest.mark.parametrize("split", [split_randomly, split_by_time])
@pytest.mark.parametrize(
    "shares", [(0.5, 0.5), (1, 0), (0, 1), (-0.1, 0.1), (0.1, -0.1), (0.9, 0.2), (np.nan, 0.1), (10, 10), (np.inf, 0)]
)
def test_bad_shares(split: Split, shares: tuple[float, float]) -> None:
    with pytest.raises(InputError) as caught:
        split(kb_of([(0, 0, 1, 1990, 1990)]), *shares)
    assert "such as 0.1 and 0.1" in caught.value.hint


@pytest.mark.parametrize("split", [split_randomly, split_by_time])
def test_a_split_kb_is_split_anew(split: Split) -> None:
    facts = [(0, 0, 1, year, year) for year in range(20)]
    whole, parts = kb_of(facts), kb_of({"train": facts[:10], "valid": facts[10:13], "test": facts[13:]})
    assert named(split(parts, 0.2, 0.1)) == named(split(whole, 0.2, 0.1))


# Leakage


@given(kbs(most=20))
def test_leakage_counts_what_a_scan_counts(kb: TemporalKB) -> None:
    train = list(kb.train)
    expected = []
    for split in ("valid", "test"):
        facts = list(kb.splits.get(split, []))
        if not facts:
            continue
        expected.append(
            {
                "split": split,
                "facts": len(facts),
                "same_triple": sum(any(known[:3] == fact[:3] for known in train) for fact in facts),
                "mirrored": sum(any(known[2::-1] == fact[:3] for known in train) for fact in facts),
                "mirrored_same_span": sum(
                    any(known[2::-1] == fact[:3] and known[3:] == fact[3:] for known in train) for fact in facts
                ),
                "same_pair": sum(any({known[0], known[2]} == {fact[0], fact[2]} for known in train) for fact in facts),
                "unseen_entity": sum(
                    any(not any(entity in (known[0], known[2]) for known in train) for entity in (fact[0], fact[2]))
                    for fact in facts
                ),
            }
        )
    assert [asdict(row) for row in leakage(kb)] == expected


def test_a_kb_without_splits_has_no_leakage() -> None:
    kb = kb_of([(0, 0, 1, 1, 1)])
    assert leakage(kb) == []
    assert leakage(replace(kb, splits={**kb.splits, "test": kb.train[:0]})) == []
