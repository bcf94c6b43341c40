"""Injected errors are what they are said to be, and the measures are those of the books."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools.injected_errors import KINDS, average_precision, inject, precision_at_injected, ranked_facts

import timeplex
from timeplex.auditing.audit import audit
from timeplex.errors import InputError
from timeplex.kb import spans
from timeplex.kb.problems import Kind

SAMPLE = timeplex.read("sample")


@pytest.mark.parametrize("kind", KINDS)
def test_as_many_as_asked_for_the_same_each_time(kind: str) -> None:
    one, rows = inject(SAMPLE, kind, 0.02, 5)
    two, again = inject(SAMPLE, kind, 0.02, 5)
    assert rows.tolist() == again.tolist()
    assert one.digest == two.digest
    assert one.digest != SAMPLE.digest
    assert len(rows) == round(0.02 * len(SAMPLE))
    assert inject(SAMPLE, kind, 0.02, 6)[0].digest != one.digest
    assert {split: len(part) for split, part in one.splits.items()} == {s: len(p) for s, p in SAMPLE.splits.items()}


def test_shifted_dates() -> None:
    kb, rows = inject(SAMPLE, "dates-shifted", 0.1, 1)
    before, after = SAMPLE.facts, kb.facts
    moved = after.begin.astype(np.int64) - before.begin
    assert set(np.flatnonzero(moved)) == set(rows.tolist())
    years = np.abs(moved[rows])
    assert years.min() >= 10
    assert years.max() <= 100
    assert 0.4 < (moved[rows] > 0).mean() < 0.6
    known = after.end[rows] != spans.OPEN_END
    assert ((after.end[rows].astype(np.int64) - before.end[rows]) == np.where(known, moved[rows], 0)).all()


def test_replaced_objects() -> None:
    kb, rows = inject(SAMPLE, "objects-replaced", 0.1, 1)
    before, after = SAMPLE.facts, kb.facts
    assert set(np.flatnonzero(after.o != before.o)) == set(rows.tolist())
    objects = set(zip(before.r.tolist(), before.o.tolist(), strict=True))
    assert {(int(after.r[row]), int(after.o[row])) for row in rows} <= objects


def test_swapped_ends_come_through_the_reader() -> None:
    kb, rows = inject(SAMPLE, "ends-swapped", 0.02, 1)
    assert len(kb.problems.of(Kind.BEGIN_AFTER_END)) == len(rows)
    assert (kb.facts.begin[rows] == kb.facts.end[rows]).all()
    findings = audit(kb)
    assert set(rows.tolist()) <= set(findings.rows[(findings.frame["rule"] == "begin-after-end").to_numpy()].tolist())


def test_what_cannot_be_injected() -> None:
    with pytest.raises(InputError, match=r"no kind of error 'x'\. The kinds are dates-shifted"):
        inject(SAMPLE, "x")
    with pytest.raises(InputError, match="share of 0"):
        inject(SAMPLE, "dates-shifted", 0)


@given(st.permutations(range(8)), st.sets(st.integers(0, 9), min_size=1), st.integers(0, 8))
def test_measures(order: list[int], wrong: set[int], length: int) -> None:
    ranked, injected = np.array(order[:length], np.int64), np.array(sorted(wrong))
    hits = [fact in wrong for fact in order[:length]]
    assert precision_at_injected(ranked, injected) == sum(hits[: len(wrong)]) / len(wrong)
    precisions = [sum(hits[: at + 1]) / (at + 1) for at, hit in enumerate(hits) if hit]
    assert average_precision(ranked, injected) == pytest.approx(sum(precisions) / len(wrong))


def test_each_fact_is_ranked_once() -> None:
    findings = audit(inject(SAMPLE, "dates-shifted", 0.05, 1)[0])
    ranked = ranked_facts(findings)
    assert len(ranked) == len(set(ranked.tolist())) == findings.suspicious < len(findings)
