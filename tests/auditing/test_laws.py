"""What is true of every rule, and of the findings of all rules together."""

from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.auditing.planted import PLANTS, clean, read
from tests.kb.random_kbs import kb_of, kbs, rows
from tools.injected_errors import inject

import timeplex
from timeplex.auditing.audit import audit
from timeplex.auditing.base import RULES
from timeplex.auditing.findings import KEY, SCHEMA
from timeplex.auditing.own_rules import TABLES
from timeplex.kb.facts import TemporalKB


@cache
def planted(rule: str) -> tuple[TemporalKB, tuple[str, ...]]:
    """A KB with an error of a rule's kind, and the fact that has it."""
    table, wrong = PLANTS[rule](clean())
    return read(table), tuple(str(value) for value in wrong)


def shuffled(kb: TemporalKB, seed: int) -> TemporalKB:
    random = np.random.default_rng(seed)
    return replace(kb, splits={split: facts[random.permutation(len(facts))] for split, facts in kb.splits.items()})


def test_every_rule_has_a_plant() -> None:
    assert set(PLANTS) == set(RULES) - {"unlikely-entity"}  # it has tests of its own, in a larger KB


@pytest.mark.parametrize("rule", PLANTS)
def test_a_planted_error_is_found_and_blamed_first(rule: str) -> None:
    kb, wrong = planted(rule)
    findings = audit(kb)
    mine = findings.of(rule)
    assert mine.height >= 1, findings
    assert mine.row(0, named=True)["rank"] == 1, findings.frame
    assert mine.select("subject", "relation", "object", "begin", "end").row(0) == wrong
    finding = mine.row(0, named=True)
    assert finding["message"].endswith(".")
    assert finding["suggestion"]


def test_clean_lives_have_no_finding() -> None:
    findings = audit(read(clean()))
    assert len(findings) == 0, findings.frame


@pytest.mark.parametrize("rule", PLANTS)
def test_the_same_each_time_and_in_any_order(rule: str) -> None:
    kb, _ = planted(rule)
    one = audit(kb).frame
    assert one.equals(audit(kb).frame)
    for seed in range(3):
        assert one.equals(audit(shuffled(kb, seed)).frame)


@pytest.mark.parametrize("rule", PLANTS)
def test_muting_a_rule_changes_no_other_finding(rule: str) -> None:
    kb = together()
    whole, without = audit(kb).frame, audit(kb, mute=[rule]).frame
    assert rule not in without["rule"]
    order = [*KEY]
    told = ["severity", *KEY, "message", "support", "others", "suggestion"]
    expected = whole.filter(pl.col("rule") != rule)
    assert expected.select(told).sort(order).equals(without.select(told).sort(order))


@cache
def together() -> TemporalKB:
    """All planted errors in one KB (each of another person, or the like)."""
    table = clean(100)
    for plant in PLANTS.values():
        try:
            table = plant(table)[0]
        except (AssertionError, ValueError):
            continue  # another error has changed this row
    return read(table)


def test_several_rules_find_something_in_one_kb() -> None:
    assert len(audit(together()).counts()) >= 6


def well_formed(kb: TemporalKB) -> None:
    """What every audit of every KB keeps."""
    findings = audit(kb)
    frame = findings.frame
    assert frame.schema == SCHEMA
    facts = kb.to_polars().rows()
    named = frame.select("split", "subject", "relation", "object", "begin", "end").rows()
    assert set(named) <= set(facts)
    assert [kb.entities[int(kb.facts.s[row])] for row in findings.rows] == frame["subject"].to_list()
    assert frame.select([*KEY, "split"]).is_unique().all() or len(set(facts)) < len(facts)
    assert frame["severity"].is_between(0, 1).all()
    assert frame["suspicion"].is_between(0, 1).all()
    assert frame["suspicion"].is_sorted(descending=True)
    assert (frame["suspicion"] >= frame["severity"] - 1e-9).all()
    assert frame["confidence"].drop_nulls().is_between(0, 1).all()
    assert sorted(set(frame["rank"])) == list(range(1, findings.suspicious + 1))
    assert frame.equals(audit(shuffled(kb, 1)).frame)


@settings(max_examples=40, deadline=None)
@given(kbs())
def test_any_kb_is_audited(kb: TemporalKB) -> None:
    well_formed(kb)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31), st.integers(100, 600), st.sampled_from(["dates-shifted", "objects-replaced"]))
def test_generated_lives_with_errors(seed: int, size: int, kind: str) -> None:
    kb, injected = inject(timeplex.generate(size, seed=seed), kind, 0.1, seed)
    assert len(injected) == round(0.1 * size)
    well_formed(kb)


own = st.fixed_dictionaries(
    {},
    optional={
        "dates": st.just([{"from": 0, "to": 5}]),
        "duration": st.just([{"relation": "r0", "at_least": 1, "at_most": 3}]),
        "ordering": st.just([{"first": "r0", "second": "r1"}]),
        "gap": st.just([{"first": "r0", "second": "r1", "at_least": 1, "at_most": 2}]),
        "one-at-a-time": st.just([{"relation": "r0"}, {"relation": "r1", "per": "object"}]),
        "lifespan": st.just([{"birth": "r0", "death": "r1"}]),
        "contradiction": st.just([{"relation": "r2"}]),
        "missing-mirror": st.just([{"relation": "r0"}]),
    },
)


@settings(max_examples=60, deadline=None)
@given(rows(most=12), own)
def test_own_rules_accuse_the_same_in_any_order(
    facts: list[tuple[int, int, int, int, int]], rules: dict[str, object]
) -> None:
    kb = kb_of(facts)
    frame = audit(kb, rules=rules).frame
    assert frame.equals(audit(shuffled(kb, 2), rules=rules).frame)
    counted = frame.filter(pl.col("rule").is_in(list(rules)))
    assert (counted["confidence"].is_null() | counted["confidence"].is_between(0, 1)).all()
    assert set(rules) <= set(TABLES)
