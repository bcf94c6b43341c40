"""`timeplex apply`: a new KB from decisions, what it says, and what it refuses."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.conftest import Timeplex

from timeplex.decisions.applying import stated
from timeplex.decisions.journal import HEADER, Decision, Decisions, line_of
from timeplex.kb.facts import TemporalKB
from timeplex.sources import read

ROWS = """subject,relation,object,begin,end
Q1,P39,Q2,1950,1960
Q3,P39,Q2,1961,1970
=1+1,P39,Q2,1971,
Q5,P39,Q2,1980,1990
"""


@pytest.fixture
def kb() -> TemporalKB:
    Path("facts.csv").write_text(ROWS)
    loaded = read("facts.csv")
    loaded.save("my.kb")
    return loaded


@pytest.fixture
def decisions(kb: TemporalKB) -> Path:
    facts = [stated(kb, row) for row in range(len(kb))]
    opened = Decisions(kb, "decisions.csv")
    more = replace(facts[0], subject="Q5", begin="1945", end="1949")
    opened.add(Decision("finding", "accept", facts[0], "change", replace(facts[0], end="1961"), note="=2+2"))
    opened.add(Decision("finding", "accept", facts[1], "remove"))
    opened.add(Decision("hole", "accept", facts[2], "change", replace(facts[2], end="1979")))
    opened.add(Decision("finding", "accept", facts[2], "remove"))
    opened.add(Decision("proposal", "accept", more, "add", more))
    opened.add(Decision("finding", "reject", facts[3]))
    opened.close()
    return Path("decisions.csv")


def test_a_new_kb_and_what_changed(timeplex: Timeplex, decisions: Path, kb: TemporalKB) -> None:
    out = timeplex("apply", "my.kb", decisions, "-o", "new.kb").out
    assert "4 facts → 3 facts" in out
    assert "conflict: change =1+1 P39 Q2 (1971–): another decision on it was taken first (remove)" in out
    rows = {row[1:] for row in TemporalKB.load(Path("new.kb")).to_polars().rows()}
    assert rows == {
        ("Q1", "P39", "Q2", "1950", "1961"),
        ("Q5", "P39", "Q2", "1980", "1990"),
        ("Q5", "P39", "Q2", "1945", "1949"),
    }
    assert TemporalKB.load(Path("my.kb")) == kb


def test_json_and_tables_tell_the_same(timeplex: Timeplex, decisions: Path) -> None:
    arguments = ("--changes", "changes.csv", "--quickstatements", "q.txt", "--json")
    told = json.loads(timeplex("apply", "my.kb", decisions, *arguments).out)
    counts = {name: told[name] for name in ("changed", "removed", "added", "merged", "already", "conflict", "rejected")}
    assert counts == {
        **{"changed": 1, "removed": 2, "added": 1, "merged": 0},
        **{"already": 0, "conflict": 1, "rejected": 1},
    }
    assert (told["facts_before"], told["facts"], told["folder"], told["last_line_cut_off"]) == (4, 3, None, False)
    rows = list(csv.DictReader(Path("changes.csv").read_text().splitlines()))
    assert [row["outcome"] for row in rows] == [change["outcome"] for change in told["changes"]]
    assert {row["subject"] for row in rows} == {"Q1", "Q3", "'=1+1", "Q5"}
    assert "'=2+2" in {row["note"] for row in rows}
    assert Path("q.txt").read_text().splitlines() == [
        "-Q1\tP39\tQ2",
        "Q1\tP39\tQ2\tP580\t+1950-00-00T00:00:00Z/9\tP582\t+1961-00-00T00:00:00Z/9",
        "-Q3\tP39\tQ2",
        "Q5\tP39\tQ2\tP580\t+1945-00-00T00:00:00Z/9\tP582\t+1949-00-00T00:00:00Z/9",
    ]
    assert told["left_out"] == ["remove =1+1 P39 Q2 (1971–): its ids are not Wikidata's"]


def test_again_changes_nothing(timeplex: Timeplex, decisions: Path) -> None:
    timeplex("apply", "my.kb", decisions, "-o", "new.kb")
    complaint = timeplex("apply", "new.kb", decisions, "-o", "again.kb").complaint()
    assert complaint.startswith("decisions.csv has decisions on another KB than this one")
    assert "4 decisions were" not in complaint
    out = timeplex("apply", "new.kb", decisions, "-o", "again.kb", "--any-kb").out
    assert "3 facts → 3 facts" in out
    assert TemporalKB.load(Path("again.kb")) == TemporalKB.load(Path("new.kb"))


def test_a_line_that_was_cut_off_is_told(timeplex: Timeplex, decisions: Path) -> None:
    decisions.write_bytes(decisions.read_bytes()[:-40])
    assert (
        "Note: the last line of decisions.csv was cut off, and is left out."
        in timeplex("apply", "my.kb", decisions).out
    )


def test_what_cannot_be_applied_is_refused_in_a_sentence(timeplex: Timeplex, decisions: Path, kb: TemporalKB) -> None:
    wrong = Decision("finding", "accept", stated(kb, 0), "change", replace(stated(kb, 0), begin="soon"))
    Path("soon.csv").write_bytes(HEADER + line_of(wrong, "0" * 64))
    Path("folder").mkdir()
    for file, words in (
        ("nothing.csv", "nothing.csv does not exist."),
        ("facts.csv", "facts.csv is not a file of decisions."),
        ("my.kb/facts.parquet", "my.kb/facts.parquet is not a file of decisions."),
        ("folder", "folder"),
    ):
        assert timeplex("apply", "my.kb", file, "-o", "new.kb").complaint().startswith(words)
    assert "soon" in timeplex("apply", "my.kb", "soon.csv", "--any-kb").complaint()
    assert timeplex("apply", "my.kb", decisions, "-o", "folder/../facts.csv").complaint()
    assert not Path("new.kb").exists()
