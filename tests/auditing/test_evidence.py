"""Whose date is wrong: pairs against a literal version, blame by hand."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.auditing import oracle
from tests.auditing.planted import clean, read
from tests.kb.random_kbs import facts_of, rows

from timeplex.auditing import evidence as module
from timeplex.auditing.case import AuditContext, _one_slip, trust
from timeplex.auditing.evidence import ERRORS, ROUNDS, _blame, _numbered, _pairs, gather
from timeplex.auditing.own_rules import OwnRules
from timeplex.kb import spans
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import Facts

OPEN = spans.OPEN_BEGIN, spans.OPEN_END


@given(rows(most=8))
def test_all_pairs_of_small_crowds(table: list[tuple[int, int, int, int, int]]) -> None:
    facts = facts_of(table)
    first, second, kind, even, _ = _pairs(facts, facts.dated)
    ours = [frozenset(pair) for pair in zip(first.tolist(), second.tolist(), strict=True)]
    assert len(ours) == len(set(ours))
    assert all(len(pair) == 2 for pair in ours)
    assert set(ours) == oracle.pairs(facts)
    assert kind.max(initial=-1) < len(even)
    for one, two, of in zip(first, second, kind, strict=True):
        if even[of]:
            assert facts.r[one] == facts.r[two]


def test_a_large_crowd_is_met_in_part() -> None:
    facts = facts_of([(0, 0, 1 + at, 1900 + at, 1900 + at) for at in range(100)])
    first, _, _, even, crowd = _pairs(facts, np.ones(100, bool))
    assert len(first) == sum(100 - step for step in range(1, module.NEIGHBOURS + 1))
    assert (even.tolist(), crowd.tolist()) == ([True], [False])


def test_the_date_of_a_fact() -> None:
    facts = facts_of([(0, 0, 1, 5, 9), (0, 0, 1, OPEN[0], 9), (0, 0, 1, 5, OPEN[1]), (0, 0, 1, *OPEN)])
    date, known = facts.date, facts.dated
    assert date[:3].tolist() == [5, 9, 5]
    assert known.tolist() == [True, True, True, False]


def test_kinds_are_counted_or_sorted() -> None:
    code = np.array([7, 3, 7, 11])
    for limit in (12, module.MOST_COUNTED + 1):
        distinct, place = _numbered(code, limit)
        assert (distinct.tolist(), place.tolist()) == ([3, 7, 11], [1, 0, 1, 2])


def test_the_stranger_is_blamed_and_not_its_neighbours() -> None:
    table = [row if row[:2] != ("person 020", "bornIn") else (*row[:3], 1790, 1790) for row in clean()]
    case = AuditContext.of(read(table), OwnRules())
    of = case.evidence
    person = case.kb.entities.id("person 020")
    rows = np.flatnonzero((case.facts.s == person) | (case.facts.o == person))
    wrong = dict(
        zip(
            [case.relation(case.facts.r[row]) for row in rows if case.facts.s[row] == person],
            of.wrong[rows[case.facts.s[rows] == person]],
            strict=True,
        )
    )
    assert wrong["bornIn"] > 0.9
    assert max(wrong[name] for name in ("marriedTo", "worksFor", "diedIn")) < 0.2
    (birth,) = [int(row) for row in rows if case.relation(case.facts.r[row]) == "bornIn"]
    (death,) = [
        int(row) for row in rows if case.relation(case.facts.r[row]) == "diedIn" and case.facts.s[row] == person
    ]
    blame = case.blame(np.array([birth, death]), np.array([death, birth]))
    assert blame[0] > 0.9 > 0.3 > blame[1]


def test_nothing_is_blamed_without_habits() -> None:
    facts = facts_of([(0, 0, 1, 5, 5), (0, 1, 1, 900, 900)])
    of = gather(facts, Granularity.YEAR)
    assert of.weight.tolist() == [0.0]
    assert of.wrong[0] == pytest.approx(ERRORS)


def test_trust_is_the_share_of_errors_among_exceptions() -> None:
    # 2 exceptions of 2,216: one beside this one, and half a case more.
    assert float(trust(2, 2216)) == pytest.approx(ERRORS / (ERRORS + 1.5 / 2216))
    assert float(trust(1, 20)) == pytest.approx(ERRORS / (ERRORS + 0.5 / 20))
    assert float(trust(0, 0)) == pytest.approx(ERRORS / (ERRORS + 0.5))


@pytest.mark.parametrize(
    ("written", "meant", "slip"),
    [
        ("1823", "1923", True),
        ("1932", "1923", True),
        ("1923", "1923", False),
        ("823", "1823", False),
        ("1329", "1923", False),
        ("2913", "1923", False),
    ],
)
def test_a_slip_of_the_pen(written: str, meant: str, slip: bool) -> None:
    assert _one_slip(written, meant) is slip


@given(rows(most=30), st.integers(1, 40))
def test_what_is_done_in_blocks_is_the_same(table: list[tuple[int, int, int, int, int]], size: int) -> None:
    facts = facts_of(table * 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LEAST_CASES", 2)
        whole = gather(facts, Granularity.YEAR)
        patch.setattr(module, "BLOCK", size)
        parts = gather(facts, Granularity.YEAR)
    for name in ("first", "second", "gap", "weight", "kind", "wrong"):
        assert getattr(parts, name).tolist() == getattr(whole, name).tolist(), name


def test_a_pair_costs_few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million facts of one relation have 15 million pairs, and took 4 GB."""
    random = np.random.default_rng(0)
    s, o = random.integers(400, size=(2, 20_000))
    begin = random.integers(1900, 2000, 20_000)
    facts = Facts(s, np.zeros_like(s), o, begin, begin + 1)
    monkeypatch.setattr(module, "BLOCK", 1 << 12)
    tracemalloc.start()
    try:
        of = gather(facts, Granularity.YEAR)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak / len(of.first) < 100


weights = st.floats(-3, 3).map(lambda weight: round(weight, 2))
met = st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 9), weights).filter(
    lambda pair: pair[0] != pair[1]
)


@given(st.lists(weights.map(lambda weight: -abs(weight)), min_size=5, max_size=5), st.lists(met, max_size=30))
def test_blame_round_by_round(usual: list[float], pairs: list[tuple[int, int, int, float]]) -> None:
    crowd = [kind < 3 for kind in range(10)]
    first, second, kind = (np.array([pair[at] for pair in pairs], np.int64) for at in range(3))
    weight = np.array([pair[3] for pair in pairs], np.float64)
    ours = _blame(np.array(usual), first, second, kind, np.array(crowd), weight)
    assert ours == pytest.approx(oracle.blame(usual, pairs, crowd, ERRORS, ROUNDS), rel=1e-6)


def test_blame_of_a_pair_by_hand() -> None:
    case = AuditContext.of(read(clean()[:2]), OwnRules())
    case.evidence.wrong[:] = 0.5, 0.2
    # One or the other is wrong with 1 − 0.5 · 0.8 = 0.6.
    assert case.blame(np.array([0, 1]), np.array([1, 0])) == pytest.approx([0.5 / 0.6, 0.2 / 0.6])
