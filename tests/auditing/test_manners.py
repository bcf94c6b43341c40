"""What a person would shake their head at: dates to come, 36,403 days, one cause told four times, a rule that holds in
no case, terms of office taken for games."""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

import timeplex
from timeplex.auditing.audit import audit
from timeplex.auditing.base import Found
from timeplex.auditing.case import AuditContext
from timeplex.auditing.findings import causes_of
from timeplex.auditing.own_rules import read_own_rules
from timeplex.auditing.rules.gap import unusual
from timeplex.kb.facts import TemporalKB
from timeplex.text import length

COLUMNS = ("subject", "relation", "object", "begin", "end")


def read(rows: list[tuple[Any, ...]]) -> TemporalKB:
    return timeplex.read([dict(zip(COLUMNS, row, strict=True)) for row in rows])


@pytest.mark.parametrize(
    ("number", "unit", "said"),
    [
        (36403, "day", "100 years"),
        (1200, "day", "3.3 years"),
        (1461, "day", "4 years"),
        (92, "day", "3 months"),
        (45, "day", "45 days"),
        (1, "day", "1 day"),
        (-800, "day", "-2.2 years"),
        (30, "month", "2.5 years"),
        (18, "month", "18 months"),
        (1204, "year", "1,204 years"),
    ],
)
def test_lengths_are_said_in_the_unit_that_people_use(number: int, unit: str, said: str) -> None:
    assert length(number, unit) == said


def test_a_rule_of_ones_own_is_quoted_to_the_day() -> None:
    rows = [
        (f"p{number}", "reigns", "land", f"{1900 + number}-01-01", f"{1900 + number}-12-01") for number in range(30)
    ]
    kb = read([*rows, ("late", "reigns", "land", "1950-01-01", "1953-06-01")])
    told = audit(kb, rules={"duration": [{"relation": "reigns", "at_most": 1200}]}).of("duration").row(0, named=True)
    assert "at most 1,200 days, here 1,247 days" in told["message"]


def test_no_date_to_come_is_suggested() -> None:
    """All lead for 5 to 20 years; one of them, eleven years before the last date, for a year."""
    rows = [
        (f"p{number}", "leads", f"party {number}", 1900 + number, 1905 + number * 7 % 16 + number)
        for number in range(95)
    ]
    findings = audit(read([*rows, ("short", "leads", "party", 1998, 1998)]))
    told = findings.of("duration").filter(pl.col("subject") == "short").row(0, named=True)
    assert findings.case is not None
    latest = findings.case.latest
    assert told["suggestion"] == f"end 1998 → {told['suggestion'].split()[3]} to {latest}?"
    assert latest <= max(row[4] for row in rows)


def test_terms_of_office_are_no_rhythm_but_games_are() -> None:
    terms = [(f"p{at}", "governs", "land", year, year + 4) for at, year in enumerate(range(1900, 2020, 4))]
    terms[10] = ("p10", "governs", "land", 1942, 1944)
    games = [(f"city {at}", "hosts", "games", year, year) for at, year in enumerate(range(1900, 2020, 4))]
    games[10] = ("city 10", "hosts", "games", 1942, 1942)
    found = audit(read([*terms, *games])).of("rhythm")
    assert found["relation"].to_list() == ["hosts"]


def test_one_cause_is_told_once() -> None:
    """Facts that break rules together with fact 0 alone are told with it, others are not."""

    def found(rule: str, facts: list[int], others: list[list[int]]) -> Found:
        n = len(facts)
        words, zeros = [f"{rule} {fact}." for fact in facts], np.zeros(n, np.int64)
        return Found(rule, rule, np.array(facts), np.ones(n), zeros, zeros, words, others, words)

    one = found("one-at-a-time", [0, 1, 2, 3], [[1, 2, 3], [0], [0], [0, 5]])
    two = found("gap", [2, 4], [[6], [3]])
    place = np.array([1, 2, 3, 4, 5, 0, 0])
    causes = causes_of([one, two], place, np.arange(7, dtype=np.int32))
    assert causes.tolist() == [1, 1, 3, 1, 5, 0, 0]  # 4 is told by itself, since 3 is told with 0


def test_one_wrong_source_of_a_subject_is_told_once_and_that_of_another_is_not(tmp_path: Any) -> None:
    lines = [f"p{at},r,o{at % 9},{1950 + at % 30},{1952 + at % 30}" for at in range(80)]
    lines += [f"claus,r,o{at},2012,416" for at in range(4)] + ["bob,r,o1,2012,416"]
    (tmp_path / "facts.csv").write_text(",".join(COLUMNS) + "\n" + "\n".join(lines) + "\n")
    frame = audit(
        timeplex.read(tmp_path / "facts.csv"), mute=["gap", "ordering", "one-at-a-time", "contradiction"]
    ).frame
    causes = {who: frame.filter(pl.col("subject") == who)["cause"].n_unique() for who in ("claus", "bob")}
    assert causes == {"claus": 1, "bob": 1}
    assert (
        frame.filter(pl.col("subject") == "bob")["cause"][0] != frame.filter(pl.col("subject") == "claus")["cause"][0]
    )


def test_a_gap_within_the_usual_range_is_told_without_a_count() -> None:
    """`[0 of 9,631]` would be said: nothing lies further within the range than that."""
    kb = timeplex.read("sample")
    case = AuditContext.of(kb, read_own_rules(None, kb))
    accused = case.evidence.wrong.argmax()
    wrong = np.where(np.arange(len(kb)) == accused, 0.9, 0.0)
    case.__dict__["evidence"] = replace(case.evidence, weight=np.full(len(case.evidence.gap), -1.0), wrong=wrong)
    told = unusual(case)
    inside = [place for place in range(len(told.fact)) if "hardly ever so far apart" in told.message(place)]
    assert inside
    assert len(inside) < len(told.fact)
    assert not told.cases[inside].any()
    assert not ((told.holds == 0) & (told.cases > 0)).any()
