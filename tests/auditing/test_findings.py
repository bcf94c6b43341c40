"""The table of findings, what is new since an earlier one, and what others add."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.auditing.planted import PLANTS, clean, read

import timeplex
from timeplex.auditing.audit import audit
from timeplex.auditing.base import RULES, Found, Rule, register
from timeplex.auditing.findings import SCHEMA, Findings, rank
from timeplex.auditing.page import page
from timeplex.errors import InputError, UnknownNameError
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import Facts, TemporalKB
from timeplex.kb.names import Names
from timeplex.kb.problems import Problems
from timeplex.kb.store import write_frame


@pytest.fixture(scope="module")
def findings() -> Findings:
    return audit(read(PLANTS["lifespan"](PLANTS["gap"](clean())[0])[0]))


def test_the_function_and_the_package_live_side_by_side() -> None:
    import timeplex.auditing.rules

    assert len(timeplex.audit(timeplex.read("sample"))) > 0


def test_what_findings_are(findings: Findings) -> None:
    assert len(findings) == findings.to_polars().height == sum(findings.counts().values())
    assert findings.to_pandas().columns.tolist() == SCHEMA.names()
    text = repr(findings)
    assert text.startswith(
        f"Findings(table: {findings.suspicious:,} suspicious facts of 301, {len(findings)} findings)"
    )
    assert findings.frame["fact"][0] in text


def test_labels_are_read_and_names_are_kept() -> None:
    table = pl.DataFrame(
        [("Q1", "P1", "Q2", 1990, 1980)], orient="row", schema=["subject", "relation", "object", "begin", "end"]
    )
    kb = timeplex.read(table)
    kb = TemporalKB(
        Names(kb.entities.names, {"Q1": "Ada"}),
        Names(kb.relations.names, {"P1": "headOf"}),
        kb.granularity,
        kb.splits,
        kb.problems,
    )
    row = audit(kb).frame.row(0, named=True)
    assert (row["subject"], row["relation"], row["fact"]) == ("Q1", "P1", "Ada headOf Q2 (1990)")


def test_dates_are_written_in_the_granularity_of_the_kb() -> None:
    table = pl.DataFrame(
        {"subject": ["a"], "relation": ["r"], "object": ["b"], "begin": ["1990-03-05"], "end": ["1990-03-01"]}
    )
    row = audit(timeplex.read(table)).frame.row(0, named=True)
    assert (row["begin"], row["end"], row["suggestion"]) == (
        "1990-03-05",
        "1990-03-05",
        "swap: 1990-03-01–1990-03-05?",
    )


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz"])
def test_nothing_is_new_since_the_same_audit(findings: Findings, tmp_path: Path, suffix: str) -> None:
    assert findings.case is not None
    path = tmp_path / f"old{suffix}"
    write_frame(findings.frame, path)
    again = audit(findings.case.kb, since=path)
    assert (len(again), again.resolved, again.suspicious) == (0, 0, 0)


def test_an_open_end_is_found_again(tmp_path: Path) -> None:
    table = [row if row[1] != "marriedTo" else (*row[:4], None) for row in PLANTS["missing-mirror"](clean())[0]]
    whole = audit(read(table))
    assert whole.frame["end"].null_count() == 1
    write_frame(whole.frame, tmp_path / "old.csv")
    again = audit(read(table), since=tmp_path / "old.csv")
    assert (len(again), again.resolved) == (0, 0)


def test_what_is_new_and_what_is_gone(findings: Findings) -> None:
    assert findings.case is not None
    kb, whole = findings.case.kb, findings.frame
    other = whole.with_columns(subject=pl.lit("someone else"))
    again = audit(kb, since=pl.concat([whole[1:], other[:2]]))
    assert again.frame.equals(whole[:1])
    assert again.rows.tolist() == findings.rows[:1].tolist()
    assert again.resolved == 2
    muted = whole["rule"][0]
    assert audit(kb, since=whole, mute=[muted]).resolved == 0, "what is muted is not resolved"


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("no.csv", None, "does not exist"),
        ("old.csv", b"a,b\n1,2\n", "has no column 'rule'"),
        ("old.csv.gz", b"nonsense", "is not a whole gzip file"),
        ("old.parquet", b"nonsense", "is not a readable Parquet file"),
        ("old.jsonl", b"{]", "is not a table of findings"),
        ("old.csv", b"", "is not a table of findings"),
        ("old.xlsx", b"", "has no suffix"),
    ],
)
def test_a_wrong_earlier_table(tmp_path: Path, name: str, data: bytes | None, words: str) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=words):
        audit(read(clean()[:4]), since=tmp_path / name)


def test_an_earlier_table_that_is_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        audit(read(clean()[:4]), since=tmp_path)


def test_an_earlier_audit_without_findings(tmp_path: Path) -> None:
    kb = read(clean())
    for suffix in (".csv", ".jsonl", ".parquet"):
        write_frame(audit(kb).frame, tmp_path / f"old{suffix}")
        assert audit(kb, since=tmp_path / f"old{suffix}").resolved == 0


def test_others_may_add_findings(findings: Findings) -> None:
    assert findings.case is not None
    worst = int(np.argmax(findings.case.evidence.wrong))
    added = Found(
        "by-the-model",
        "model",
        np.array([worst, 3]),
        np.array([0.5, 0.999]),
        np.array([0, 0]),
        np.array([0, 0]),
        ["Odd.", "Very odd."],
        [[], [worst]],
        ["?", "?"],
    )
    more = findings.plus(added)
    assert len(more) == len(findings) + 2
    assert set(more.counts()) == set(findings.counts()) | {"by-the-model"}
    before = findings.frame.filter(pl.col("rank") == 1)["suspicion"][0]
    again = more.frame.filter(pl.col("fact") == findings.frame["fact"][0])["suspicion"][0]
    assert again == pytest.approx(1 - (1 - before) * 0.5, abs=1e-6)
    assert findings.plus(added, notes=["Asked."]).notes == (*findings.notes, "Asked.")
    with pytest.raises(InputError, match="do not know their KB"):
        Findings(more.frame, more.rows, "kb", 3).plus(added)


def test_what_others_add_is_compared_with_the_earlier_table_too(findings: Findings) -> None:
    assert findings.case is not None
    no = np.zeros(1, np.int64)
    added = Found("model", "model", np.array([3]), np.array([0.4]), no, no, ["Odd."], [[]], ["?"])
    whole = findings.plus(added).frame
    again = audit(findings.case.kb, since=whole)
    assert (len(again), again.resolved) == (0, 0), "a rule that was not asked has resolved nothing"
    assert (len(again.plus(added)), again.plus(added).resolved) == (0, 0)
    nothing = Found("model", "model", no[:0], np.zeros(0), no[:0], no[:0], [], [], [])
    assert again.plus(nothing).resolved == 1, "a rule that was asked and found nothing has"
    new = audit(findings.case.kb, since=findings.frame).plus(added)
    assert new.counts() == {"model": 1}


def test_unknown_rules_are_told() -> None:
    with pytest.raises(UnknownNameError, match=r"no rule 'rythm'. Did you mean 'rhythm'"):
        audit(read(clean()[:4]), mute=["rythm"])
    with pytest.raises(UnknownNameError, match="The rules are begin-after-end, "):
        audit(read(clean()[:4]), mute=["xyz"])


def test_a_name_is_taken_once() -> None:
    with pytest.raises(ValueError, match="belongs to timeplex"):
        register("gap")(type("Other", (Rule,), {"__module__": "elsewhere"}))
    assert RULES["gap"].__module__ == "timeplex.auditing.rules.gap"


@pytest.mark.parametrize(
    "facts",
    [
        [],
        [(0, 0, 0, 1990, 1990)],
        [(0, 0, 1, -(2**31), 2**31 - 1)] * 2,
        [(0, 0, 1, -(2**31), 1990), (1, 0, 0, 1990, 2**31 - 1)],
    ],
)
def test_hardly_any_fact(facts: list[tuple[int, ...]]) -> None:
    table = np.array(facts, np.int32).reshape(-1, 5)
    names = Names(pl.Series(["a", "b"]))
    kb = TemporalKB(names, Names(pl.Series(["r"])), Granularity.YEAR, {"train": Facts(*table.T)}, Problems.none())
    findings = audit(kb)
    assert len(findings) == 0
    assert len(findings.notes) == 1
    assert "Nothing was found." in page(findings)


def test_a_page_escapes_what_it_shows() -> None:
    evil = '<script>alert(1)</script>&"'
    table = [(evil, f"r{evil}", evil, 1990, 1980), ("b", "r", "c", 1990, 1980)]
    text = page(audit(read(table)))
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;" in text
    assert text.count("<article>") == 2
    assert "The first 1 of 2." in page(audit(read(table)), most=1)


def test_a_page_tells_support_others_and_what_is_gone(findings: Findings) -> None:
    text = page(findings.since(findings.frame[:1]))
    assert "holds in" in text
    assert "see also" in text
    assert "0 earlier findings are gone" in text


def test_families_add_up_and_rules_of_one_do_not(findings: Findings) -> None:
    assert findings.case is not None

    def found(rule: str, family: str, severity: float) -> Found:
        no = np.array([0])
        return Found(rule, family, np.array([7]), np.array([severity]), no, no, ["Odd."], [[]], ["?"])

    two = np.array([7, 8])
    both = [
        Found(rule, "x", two, np.full(2, severity), two, two, ["Odd."] * 2, [[]] * 2, ["?"] * 2)
        for rule, severity in (("a", 0.5), ("b", 0.3))
    ]
    assert rank(findings.case, both).frame["rank"].to_list() == [1, 1, 2, 2], "a fact's findings stand together"
    ranked = rank(findings.case, [found("a", "x", 0.5), found("b", "x", 0.3), found("c", "y", 0.2)])
    assert ranked.frame["suspicion"].to_list() == pytest.approx([1 - 0.5 * 0.8] * 3)
    assert ranked.frame["rule"].to_list() == ["a", "b", "c"]
    assert ranked.frame["rank"].to_list() == [1, 1, 1]
