"""What would mend a fact exactly: it can be, it differs from the fact, and the finding is gone when it is done."""

from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import HealthCheck, given, settings
from tests import strategies

import timeplex
from timeplex.auditing.case import Repair
from timeplex.auditing.findings import Findings
from timeplex.decisions.applying import apply, stated
from timeplex.decisions.journal import Decision, Stated
from timeplex.kb.facts import Facts, TemporalKB

ROOT = Path(__file__).parents[2]
MORE = (
    "Olof Palme,diedIn,Sweden,1896,1896",  # two digits of 1986 the wrong way round
    "Margaret Thatcher,leaderOf,Labour,1990,1979",
    "Willy Brandt,marriedTo,Brigitte Seebacher,1983,1992",
)


@lru_cache
def kb() -> TemporalKB:
    """The leaders with slips."""
    folder = Path(mkdtemp())
    rows = (ROOT / "examples" / "leaders.csv").read_text() + (ROOT / "examples" / "slips.csv").read_text()
    (folder / "copied.csv").write_text(rows + "\n".join([*MORE, ""]))
    return timeplex.read(folder / "copied.csv", object="place")


def repairs(findings: Findings) -> list[tuple[str, int, Repair]]:
    """Rule, row in the KB, and repair."""
    assert findings.case is not None
    return [
        (found.rule, int(findings.case.rows[fact]), repair)
        for found in findings.found
        for fact, some in zip(found.fact.tolist(), found.repairs, strict=True)
        for repair in some
    ]


def check(found: Findings, facts: Facts) -> None:
    for _, row, repair in repairs(found):
        old = tuple(int(column[row]) for column in facts.columns)
        new = repair.s, repair.r, repair.o, repair.begin, repair.end
        assert new != old
        assert repair.begin <= repair.end
        assert repair.r == old[1]
        assert repair.adds == ((repair.s, repair.o) == (old[2], old[0]) and repair.s != repair.o)


@given(strategies.kbs())
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_repairs_of_any_kb_can_be_and_differ(kb: TemporalKB) -> None:
    check(timeplex.audit(kb), kb.facts)


def test_slips_of_the_pen_have_an_exact_repair() -> None:
    found = timeplex.audit(kb())
    check(found, kb().facts)
    spans = {(rule, row): (repair.begin, repair.end) for rule, row, repair in repairs(found)}
    by_fact = {(rule, str(stated(kb(), row))): span for (rule, row), span in spans.items()}
    swapped = ("begin-after-end", "Margaret Thatcher headOfGovernment United Kingdom (1990)")
    assert by_fact[swapped] == (1979, 1990)
    assert {rule for rule, _ in by_fact} >= {"begin-after-end", "rhythm", "lifespan"}


@pytest.mark.parametrize("rule", ["begin-after-end", "rhythm", "lifespan"])
def test_what_is_repaired_is_not_found_again(rule: str) -> None:
    found = timeplex.audit(kb())
    mine = {row: repair for name, row, repair in reversed(repairs(found)) if name == rule}
    assert mine
    for row, repair in mine.items():
        fact = stated(kb(), row)
        new = Stated(fact.subject, fact.relation, fact.object, kb().date(repair.begin), kb().date(repair.end))
        done = apply(kb(), [Decision("finding", "accept", fact, "change", new)])
        again = timeplex.audit(done.kb)
        told = {each["fact"] for each in again.of(rule).iter_rows(named=True)}
        assert str(new) not in told
