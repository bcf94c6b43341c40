"""Each rule by hand: what it says of small tables, what it leaves alone, and the user's own limits."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.auditing import oracle
from tests.auditing.planted import PLANTS, Row, changed, clean, read
from tests.kb.random_kbs import kb_of, rows

import timeplex
from timeplex.auditing.audit import audit
from timeplex.auditing.case import CERTAIN, AuditContext, trust
from timeplex.auditing.own_rules import OwnRules
from timeplex.auditing.rules.lifespan import lives
from timeplex.auditing.rules.one_at_a_time import _at_once, _successions
from timeplex.auditing.rules.rhythm import most_frequent
from timeplex.kb.problems import FACT


def first(rows: list[Row], rule: str, rules: dict[str, Any] | None = None) -> dict[str, Any]:
    """The first finding of a rule."""
    return audit(read(rows), rules=rules).of(rule).row(0, named=True)


def facts(findings: pl.DataFrame) -> list[tuple[Any, ...]]:
    return findings.select("subject", "relation", "object", "begin", "end").rows()


# begin-after-end


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt", ".jsonl", ".parquet"])
def test_a_reversed_row_of_any_format_is_traced_to_its_fact(tmp_path: Path, suffix: str) -> None:
    table = [("A, the first", "headOf", "X", "1990", "1980"), ("A, the first", "headOf", "Y", "1990", "1995")]
    path = tmp_path / f"facts{suffix}"
    frame = pl.DataFrame(table, orient="row", schema=["subject", "relation", "object", "begin", "end"])
    if suffix == ".txt":
        path.write_text("".join("\t".join(row) + "\n" for row in table))
    elif suffix == ".parquet":
        frame.write_parquet(path)
    elif suffix == ".jsonl":
        frame.write_ndjson(path)
    else:
        frame.write_csv(path, separator="," if suffix == ".csv" else "\t")
    findings = audit(timeplex.read(path))
    assert facts(findings.of("begin-after-end")) == [("A, the first", "headOf", "X", "1990", "1990")]
    finding = findings.frame.row(0, named=True)
    assert finding["message"] == "The source says that it begins 1990 and ends 1980."
    assert finding["suggestion"] == "swap: 1980–1990?"
    assert finding["support"] is None


def test_the_mirror_of_a_reversed_row_is_not_taken_for_it() -> None:
    for one, two in ("ab", "ba"):
        table: list[Row] = [(one, "marriedTo", two, 1990, 1980), (two, "marriedTo", one, 1990, None)]
        assert facts(audit(read(table)).of("begin-after-end")) == [(one, "marriedTo", two, "1990", "1990")]


def test_the_end_that_was_set_by_the_reader_has_no_duration() -> None:
    findings = audit(read(PLANTS["begin-after-end"](clean())[0]))
    assert findings.counts() == {"begin-after-end": 1}


def test_a_table_that_does_not_name_its_relation(tmp_path: Path) -> None:
    path = tmp_path / "clubs.csv"
    path.write_text("player,club,from,to\nAna,Ajax,2003,1998\n")
    kb = timeplex.read(path, subject="player", relation="=playsFor", object="club")
    assert facts(audit(kb).frame) == [("Ana", "playsFor", "Ajax", "2003", "2003")]


def test_a_row_is_traced_however_long_it_is() -> None:
    name = "long " * 200
    assert facts(audit(read([(name, "r", "b", 1990, 1980)])).frame) == [(name, "r", "b", "1990", "1990")]


def test_of_several_facts_with_that_begin_the_shortest_is_meant() -> None:
    table: list[Row] = [("a", "r", "b", 1990, 1995), ("a", "r", "b", 1990, 1980), ("a", "r", "b", 1990, None)]
    assert facts(audit(read(table)).of("begin-after-end")) == [("a", "r", "b", "1990", "1990")]


def test_a_problem_that_was_stored_without_its_fact_is_counted() -> None:
    kb = read([("a", "r", "b", 1990, 1980), ("a", "r", "b", 1990, 1991)])
    without = kb.problems.frame.with_columns(pl.lit(None, pl.Int32).alias(name) for name in FACT)
    findings = audit(replace(kb, problems=replace(kb.problems, frame=without)))
    assert len(findings.of("begin-after-end")) == 0
    assert "1 rows that begin after they end could not be traced to a fact." in findings.notes


def test_an_end_that_is_no_year_is_not_swapped() -> None:
    table = [(f"p{at}", "r", "x", 1990 + at % 20, 1991 + at % 20) for at in range(40)]
    finding = first([*table, ("q", "r", "x", 2008, 116)], "begin-after-end")
    assert finding["suggestion"] == "check the end 116"


# Dates


def test_a_slip_of_the_pen_is_named() -> None:
    born = ("person 020", "bornIn", "town 6", 1920, 1920)
    finding = first(changed(clean(), born, (*born[:3], 1020, 1020)), "implausible-date")
    assert finding["subject"] == "person 020"
    # The quantiles are 1906, 1952 and 2018: eight times as far from the median as the outer ones is too far.
    assert finding["message"] == "1020 is far from all other dates, which suggest 1584 to 2480."
    assert finding["suggestion"] in ("date 1020 → 1920?", "date 1020 → 1918 to 1923?", "date 1020 → 1920 to 1921?")


def test_an_unusual_gap_tells_the_usual_one() -> None:
    died = ("person 020", "diedIn", "town 0", 1990, 1990)
    finding = first(changed(clean(), died, (*died[:3], 2150, 2150)), "gap")
    assert (finding["subject"], finding["relation"]) == ("person 020", "diedIn")
    assert "years after" in finding["message"]
    assert "usual is" in finding["message"]
    holds, cases = (int(part) for part in finding["support"].split(" of "))
    assert holds == cases
    assert finding["others"]


def test_the_usual_gap_is_told_from_the_side_of_the_accused() -> None:
    for relation, date, side in (("bornIn", 1790, "before"), ("diedIn", 2150, "after")):
        row = next(row for row in clean() if row[:2] == ("person 020", relation))
        mine = audit(read(changed(clean(), row, (*row[:3], date, date)))).of("gap")
        finding = mine.filter(pl.col("subject") == "person 020").row(0, named=True)
        assert finding["relation"] == relation
        assert finding["message"].endswith(f" years {side}.")
        first, last = (int(part) for part in re.findall(r"usual is (\d+) to (\d+) years", finding["message"])[0])
        assert 20 <= first <= last <= 80


def test_what_begins_together_is_in_order() -> None:
    table: list[Row] = [("a", "studies", "u", 1990, 1995), ("a", "works", "f", 1990, 1999)]
    assert len(audit(read(table), rules={"ordering": [{"first": "studies", "second": "works"}]})) == 0


def test_the_begin_after_the_death_of_the_subject_is_told_by_ordering_alone() -> None:
    findings = audit(read(PLANTS["ordering"](clean())[0]))
    assert len(findings.of("ordering")) >= 1
    assert not any("death of its subject" in text and " begins " in text for text in findings.of("lifespan")["message"])


def test_the_order_is_told_with_its_support() -> None:
    died = ("person 020", "diedIn", "town 0", 1990, 1990)
    finding = first(changed(clean(), died, (*died[:3], 1921, 1921)), "ordering")
    assert finding["message"].endswith("comes before diedIn, but here marriedTo is 1945 and diedIn 1921.")
    assert finding["support"] == "59 of 60"
    assert finding["confidence"] == pytest.approx(59 / 60)


def test_a_duration_out_of_the_ordinary() -> None:
    job = ("person 020", "worksFor", "firm 0", 1942, 1952)
    finding = first(changed(clean(), job, (*job[:3], 1942, 2005)), "duration")
    lengths = sorted(9 + person % 9 - person % 4 for person in range(60))
    assert (lengths[3], lengths[56]) == (7, 16), "5 % and 95 % of 60"
    assert finding["message"] == "It lasts 64 years; usual of worksFor is 7 to 16 years."
    assert finding["suggestion"] == "end 2005 → 1948 to 1957?"
    assert finding["support"] == "59 of 59"


# One at a time, duplicates, mirrors


@given(rows(entities=4, relations=1, most=12), st.sampled_from(["subject", "object"]))
def test_nobody_at_once_is_overlooked(table: list[tuple[int, int, int, int, int]], side: str) -> None:
    case = AuditContext.of(kb_of(table), OwnRules())
    earlier, later = _successions(case, side)
    at_once = _at_once(case, earlier, later)
    ours = {frozenset(pair) for pair in zip(earlier[at_once].tolist(), later[at_once].tolist(), strict=True)}
    everyone = oracle.at_once(case.facts, 0, side)
    assert ours <= everyone
    # Each fact is compared with one other, so not all pairs are told; but wherever there is one, one is told.
    mine = case.facts.s if side == "subject" else case.facts.o
    partner = case.facts.o if side == "subject" else case.facts.s
    alone = {int(mine[row]) for pair in everyone for row in pair} - {int(mine[row]) for pair in ours for row in pair}
    for entity in alone:  # only where the longest of those before has the same partner
        assert len(set(partner[mine == entity].tolist())) < (mine == entity).sum()


def test_a_successor_may_begin_when_the_predecessor_ends() -> None:
    assert len(audit(read(clean())).of("one-at-a-time")) == 0
    finding = first([*clean(), ("usurper", "headOf", "country 1", 1937, 1941)], "one-at-a-time")
    assert "headOf has one subject at a time, but country 1 has two at once" in finding["message"]
    assert finding["others"] == "head 1 6 headOf country 1 (1936–1942)"


def test_events_far_apart_show_no_rule() -> None:
    table: list[Row] = [(f"s{at}", "meets", "x", 1000 + 9 * at, 1000 + 9 * at) for at in range(60)]
    assert len(audit(read([*table, ("t", "meets", "x", 1090, 1090)])).of("one-at-a-time")) == 0


def test_what_happens_once() -> None:
    findings = audit(read([*clean(), ("person 030", "bornIn", "town 6", 1938, 1938)])).of("contradiction")
    assert {row[3] for row in facts(findings)} == {"1930", "1938"}
    assert findings["message"][0] == "bornIn happens once, but person 030 has two dates of it: 1930 and 1938."


def test_the_same_fact_twice() -> None:
    job = ("person 020", "worksFor", "firm 0", 1942, 1952)
    findings = audit(read([*clean(), (*job[:3], 1942, 1955)])).of("contradiction")
    assert findings["message"][0] == "It is stated twice, with different spans: 1942–1952 and 1942–1955."
    assert findings["suggestion"][0] == "make them one, 1942–1955?"
    assert len(audit(read([*clean(), (*job[:3], 1952, 1955)])).of("contradiction")) == 0, "one after the other"


def test_a_missing_mirror_is_suggested() -> None:
    table = [row for row in clean() if row[:2] != ("person 010", "marriedTo")]
    finding = first(table, "missing-mirror")
    assert finding["suggestion"] == "add (person 010, marriedTo, person 011, 1935–1965)?"
    assert finding["support"] == "58 of 59"
    # The fact is wrong, or the other one has not been told.
    assert finding["severity"] == pytest.approx(float(trust(1, 59)) / 2)


def test_a_wrong_object_is_told_from_the_mirror() -> None:
    right = ("person 010", "marriedTo", "person 011", 1935, 1965)
    findings = audit(read(changed(clean(), right, (*right[:2], "person 040", 1935, 1965)))).of("missing-mirror")
    assert facts(findings) == [("person 010", "marriedTo", "person 040", "1935", "1965")], "the other is explained"
    assert findings["suggestion"][0] == ("object → person 011, as person 011 marriedTo person 010 (1935–1965) says?")


# Lives and rhythms


def test_births_and_deaths_are_found_by_what_they_are() -> None:
    case = AuditContext.of(read(clean()), OwnRules())
    assert [[case.relation(relation) for relation in part] for part in lives(case)] == [["bornIn"], ["diedIn"]]
    games = AuditContext.of(read([row for row in clean() if row[1] != "diedIn"]), OwnRules())
    assert lives(games) == ([], [])


def test_nobody_works_after_death() -> None:
    job = next(row for row in clean() if row[:2] == ("person 040", "worksFor"))
    finding = first(changed(clean(), job, (*job[:4], 2031)), "lifespan")
    assert finding["message"].startswith("worksFor ends after the death of its subject in 2010")
    assert finding["suggestion"] == "end 2031 → 2010 or earlier?"


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=20))
def test_the_most_frequent_value(pairs: list[tuple[int, int]]) -> None:
    table = pl.DataFrame(pairs, orient="row", schema={"group": pl.Int64, "value": pl.Int64})
    values, times = most_frequent(table["group"].to_numpy(), table["value"].to_numpy(), 5)
    for group in range(5):
        mine = [value for of, value in pairs if of == group]
        expected = min(set(mine), key=lambda value: (-mine.count(value), value), default=0)
        assert (values[group], times[group]) == (expected, mine.count(expected) if mine else 0)


def test_an_edition_left_out_breaks_no_rhythm() -> None:
    table = [row for row in clean() if row != ("games", "heldIn", "town 3", 1940, 1940)]
    assert len(audit(read(table)).of("rhythm")) == 0


def test_an_edition_out_of_step() -> None:
    edition = ("games", "heldIn", "town 3", 1940, 1940)
    finding = first(changed(clean(), edition, (*edition[:3], 1941, 1941)), "rhythm")
    assert finding["message"] == "heldIn of games happens every 4 years, but 1941 is out of step."
    assert (finding["support"], finding["suggestion"]) == ("24 of 25", "1941 → 1940 or 1944?")


# The user's own


SMALL: list[Row] = [
    ("a", "studies", "u", 1990, 1995),
    ("a", "works", "f", 1980, 2030),
    ("a", "works", "g", 1985, 1986),
    ("a", "born", "t", 1970, 1970),
    ("a", "born", "t", 1972, 1972),
    ("a", "dies", "t", 2020, 2020),
    ("a", "knows", "b", None, None),
]


@pytest.mark.parametrize(
    ("rules", "rule", "accused", "words"),
    [
        (
            {"dates": [{"from": 1975, "to": 2025}]},
            "implausible-date",
            {"born", "works"},
            "outside your range 1975 to 2025",
        ),
        ({"dates": [{"from": 1975, "to": 2025, "relation": "works"}]}, "implausible-date", {"works"}, "The end 2030"),
        (
            {"duration": [{"relation": "works", "at_most": 30}]},
            "duration",
            {"works"},
            "lasts at most 30 years, here 50",
        ),
        ({"duration": [{"relation": "studies", "at_least": 6}]}, "duration", {"studies"}, "at least 6 years, here 5"),
        (
            {"ordering": [{"first": "studies", "second": "works"}]},
            "ordering",
            {"studies", "works"},
            "By your rule studies",
        ),
        ({"gap": [{"first": "born", "second": "dies", "at_most": 49}]}, "gap", {"born", "dies"}, "here it is 50 years"),
        ({"gap": [{"first": "studies", "second": "dies", "at_least": 31}]}, "gap", {"studies", "dies"}, "at least 31"),
        ({"one-at-a-time": [{"relation": "works"}]}, "one-at-a-time", {"works"}, "a has two at once"),
        ({"lifespan": [{"birth": "born", "death": "dies"}]}, "lifespan", {"works", "dies"}, "ends after the death"),
        ({"contradiction": [{"relation": "born"}]}, "contradiction", {"born"}, "1970 and 1972"),
        ({"missing-mirror": [{"relation": "knows"}]}, "missing-mirror", {"knows"}, "holds both ways"),
    ],
)
def test_own_rules(rules: dict[str, Any], rule: str, accused: set[str], words: str) -> None:
    kb = read(SMALL)
    assert len(audit(kb)) == 0
    findings = audit(kb, rules=rules)
    assert set(findings.counts()) == {rule}
    assert set(findings.frame["relation"]) == accused
    assert words in " ".join(findings.frame["message"])
    assert findings.frame["severity"].max() <= CERTAIN
    assert findings.frame["support"].null_count() == len(findings)


def test_own_rules_may_be_kept() -> None:
    rules = {
        "duration": [{"relation": "works", "at_most": 50}],
        "one-at-a-time": [{"relation": "works", "per": "object"}],
    }
    assert len(audit(read(SMALL), rules=rules)) == 0
