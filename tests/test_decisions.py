"""The file of decisions, and the KB that they make."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import strategies
from tests.builders import kb_of

import timeplex
from timeplex.decisions import journal, quickstatements
from timeplex.decisions.applying import apply, stated
from timeplex.decisions.journal import (
    HEADER,
    Decision,
    Decisions,
    Stated,
    digest,
    escaped,
    line_of,
    parse,
    read,
    replay,
    unescaped,
)
from timeplex.errors import InputError
from timeplex.kb.facts import TemporalKB
from timeplex.kb.store import harmless
from timeplex.text import visible

DIGEST = "0123456789abcdef" * 4
KB = kb_of([(0, 0, 1, 1900, 1910), (0, 1, 2, 1920, 1930), (1, 0, 2, 1950, 1950), (2, 1, 0, 1960, 2**31 - 1)], 4, 2)
FIRST, SECOND, THIRD, OPEN = (stated(KB, row) for row in range(4))


def accept(fact: Stated, action: str, new: Stated | None = None, kind: str = "finding") -> Decision:
    return Decision(kind, "accept", fact, action, new)  # type: ignore[arg-type]


def reject(fact: Stated, kind: str = "finding") -> Decision:
    return Decision(kind, "reject", fact)  # type: ignore[arg-type]


def stated_in(kb: TemporalKB) -> list[Stated]:
    return sorted((stated(kb, row) for row in range(len(kb))), key=str)


# Texts and lines


@given(st.text(st.characters()) | strategies.names())
def test_a_text_comes_back_from_its_escape_and_harms_nobody(text: str) -> None:
    written = escaped(text)
    assert unescaped(written) == text
    assert harmless(written) == written
    assert visible(written) == written
    assert "\n" not in written


NAMES = st.text(st.characters(codec="utf-8"), min_size=1) | strategies.names()


@st.composite
def any_decision(draw: st.DrawFn) -> Decision:
    fact = Stated(draw(NAMES), draw(NAMES), draw(NAMES), *draw(st.sampled_from([("1990", None), (None, None)])))
    kind = draw(st.sampled_from(["finding", "hole", "proposal"]))
    verdict = draw(st.sampled_from(["accept", "reject", "skip", "undo"]))
    if verdict != "accept":
        return Decision(kind, verdict, fact, note=draw(st.text()), at="2026-11-19T12:00:00+00:00")  # type: ignore[arg-type]
    action = "add" if kind == "proposal" else draw(st.sampled_from(["change", "remove", "add"]))
    new = None if action == "remove" else replace(fact, object=draw(NAMES), end="2001")
    return Decision(kind, "accept", fact, action, new, draw(st.text()), draw(st.text()))  # type: ignore[arg-type]


@given(st.lists(any_decision(), max_size=5), st.data())
def test_of_a_file_that_ends_anywhere_all_whole_lines_count(taken: list[Decision], data: st.DataObject) -> None:
    lines = [HEADER, *(line_of(each, DIGEST) for each in taken)]
    content = b"".join(lines)
    assert list(parse(content, "x").decisions) == taken
    cut = data.draw(st.integers(0, len(content)))
    found = parse(content[:cut], "x")
    # A line that lacks nothing but its end is whole.
    ends = np.cumsum([len(line) for line in lines])
    whole = int((ends[1:] - 1 <= cut).sum()) if cut >= len(HEADER) else 0
    assert list(found.decisions) == taken[:whole]
    assert found.whole == max(
        [0, *(min(int(end), cut) for end in ends if end <= cut or (end - 1 == cut and end > ends[0]))]
    )
    assert found.torn == (found.whole < cut)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"subject,relation,object\nA,b,C\n", "is not a file of decisions"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "is not a file of decisions"),
        (HEADER + b"nonsense\n", "Line 2 of x is not a decision: it has other columns"),
        (HEADER + line_of(reject(FIRST), DIGEST) + b"\xff\n" + line_of(reject(FIRST), DIGEST), "Line 3 of x"),
        (HEADER + line_of(accept(FIRST, "fly"), DIGEST), "its action does not go with its verdict"),
        (HEADER + line_of(accept(FIRST, "change"), DIGEST), "its new fact does not go with its action"),
        (HEADER + line_of(accept(FIRST, "remove", kind="proposal"), DIGEST), "its action does not go with its verdict"),
        (HEADER + line_of(accept(replace(FIRST, subject=""), "remove"), DIGEST), "a name is missing"),
        (HEADER + line_of(reject(FIRST, "dream"), DIGEST), "its kind or verdict is not known"),
        (HEADER + line_of(reject(FIRST), DIGEST) + line_of(reject(FIRST), DIGEST[::-1]), "on several KBs"),
    ],
)
def test_a_file_that_is_not_ours_is_refused_in_a_sentence(content: bytes, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(content, "x")
    assert problem in caught.value.problem
    assert caught.value.problem.count(". ") == 0


def test_a_spreadsheet_may_have_saved_the_file() -> None:
    content = b"\xef\xbb\xbf" + (HEADER + line_of(reject(FIRST), DIGEST)).replace(b"\n", b"\r\n")
    assert parse(content, "x").decisions == (reject(FIRST),)


# Replay


def test_the_last_verdict_that_was_not_undone_stands() -> None:
    undo = Decision("finding", "undo", FIRST)
    said = [reject(FIRST), accept(FIRST, "remove"), reject(SECOND), undo]
    assert replay(said) == {reject(SECOND).item: reject(SECOND), reject(FIRST).item: reject(FIRST)}
    assert replay([*said, undo, undo]) == {reject(SECOND).item: reject(SECOND)}


def test_decisions_outlive_the_process_and_a_cut_off_line(tmp_path: Path) -> None:
    path = tmp_path / "decisions.csv"
    first = Decisions(KB, path)
    taken = [first.add(accept(FIRST, "remove")), first.add(reject(SECOND)), first.add(reject(THIRD))]
    assert first.undo() == taken[-1]
    first.close()
    with path.open("ab") as file:
        file.write(line_of(reject(OPEN), digest(KB))[:-10])
    again = Decisions(KB, path)
    assert again.torn
    assert list(again.current.values()) == taken[:2]
    again.add(reject(THIRD))
    again.close()
    assert [each.verdict for each in read(path, KB).decisions] == ["accept", "reject", "reject", "undo", "reject"]


def test_a_whole_line_without_its_end_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "decisions.csv"
    path.write_bytes(HEADER + line_of(reject(FIRST), digest(KB))[:-1])
    opened = Decisions(KB, path)
    opened.add(reject(SECOND))
    opened.close()
    assert [each.fact for each in read(path).decisions] == [FIRST, SECOND]


def test_what_cannot_be_decided_leaves_nothing_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "decisions.csv"
    opened = Decisions(KB, path)
    for wrong in (
        accept(FIRST, "change", replace(FIRST, begin="soon")),
        accept(FIRST, "change", replace(FIRST, begin="1990", end="1980")),
        accept(FIRST, "change"),
        replace(reject(FIRST), note="x" * (journal.MOST_NOTE + 1)),
    ):
        with pytest.raises(InputError):
            opened.add(wrong)
    assert path.read_bytes() == HEADER
    assert opened.current == {}
    opened.close()


def test_one_process_at_a_time_has_the_file(tmp_path: Path) -> None:
    opened = Decisions(KB, tmp_path / "decisions.csv")
    with pytest.raises(InputError, match="in use by another process"):
        Decisions(KB, tmp_path / "decisions.csv")
    opened.close()
    Decisions(KB, tmp_path / "decisions.csv").close()


def test_links_folders_pipes_and_decisions_on_another_kb_are_refused(tmp_path: Path) -> None:
    (tmp_path / "decisions.csv").write_bytes(HEADER + line_of(reject(FIRST), DIGEST))
    (tmp_path / "link").symlink_to(tmp_path / "decisions.csv")
    os.mkfifo(tmp_path / "pipe")
    for name in ("decisions.csv", "link", "pipe", ".", "missing/decisions.csv"):
        with pytest.raises(InputError) as caught:
            Decisions(KB, tmp_path / name)
        assert caught.value.hint
    with pytest.raises(InputError, match="another KB than this one"):
        read(tmp_path / "decisions.csv", KB)
    assert (tmp_path / "decisions.csv").read_bytes() == HEADER + line_of(reject(FIRST), DIGEST)


def test_decisions_on_a_run_are_about_the_kb_that_it_has_split() -> None:
    split = timeplex.split_randomly(KB, valid=0.2, test=0.2)
    assert digest(split) == digest(KB)
    fewer = apply(KB, [accept(FIRST, "remove")]).kb
    assert digest(fewer) != digest(KB)


def test_without_a_file_nothing_is_decided() -> None:
    with pytest.raises(InputError, match="no file for decisions"):
        Decisions(KB).add(reject(FIRST))


WRITER = """
import sys
import timeplex
from timeplex.decisions.applying import stated
from timeplex.decisions.journal import Decision, Decisions
kb = timeplex.TemporalKB.load(sys.argv[1])
opened = Decisions(kb, sys.argv[2])
for number in range(100_000):
    opened.add(Decision("finding", "reject", stated(kb, number % 4), note=f"number {number}, " + "x" * 500))
    print(number, flush=True)
"""


def test_what_was_acknowledged_survives_being_killed(tmp_path: Path) -> None:
    KB.save(tmp_path / "my.kb")
    path, told = tmp_path / "decisions.csv", 0
    for wait in (0.05, 0.2, 0.11):
        command = [sys.executable, "-c", WRITER, str(tmp_path / "my.kb"), str(path)]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(wait)
        writer.send_signal(signal.SIGKILL)
        told += 1 + len([line for line in writer.stdout if line.endswith("\n")])
        writer.stdout.close()
        writer.wait()
        found = read(path, KB).decisions
        assert told <= len(found) <= told + 1
        told = len(found)
    assert all(later.at >= earlier.at for earlier, later in pairwise(found))


# Apply


def test_facts_are_changed_removed_and_added() -> None:
    new = replace(SECOND, begin="1921", end=None)
    more = Stated("e3", "r0", "e0", "2000", "2001")
    done = apply(
        KB,
        [accept(FIRST, "remove"), accept(SECOND, "change", new), reject(THIRD), accept(more, "add", more, "proposal")],
    )
    assert stated_in(done.kb) == sorted([new, THIRD, OPEN, more], key=str)
    assert [done.count(what) for what in ("changed", "removed", "added", "conflict")] == [1, 1, 1, 0]
    assert (done.rejected, done.skipped, len(done.kb), done.kb.entities) == (1, 0, 4, KB.entities)


def test_changed_facts_keep_split_and_source_and_added_ones_are_of_train(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("subject,relation,object,begin,end\na,r,b,1,2\nb,r,c,3,4\n")
    (tmp_path / "test.csv").write_text("subject,relation,object,begin,end\na,r,c,5,6\n")
    kb = timeplex.read(tmp_path)
    fact = Stated("a", "r", "c", "5", "6")
    more = Stated("c", "r", "a")
    done = apply(kb, [accept(fact, "change", replace(fact, end="7")), accept(more, "add", more, "proposal")])
    assert {split: len(facts) for split, facts in done.kb.splits.items()} == {"train": 3, "test": 1}
    assert next(iter(done.kb.test))[3:] == (5, 7)
    assert done.kb.test.source is not None
    assert kb.test.source is not None
    assert done.kb.test.source.tolist() == kb.test.source.tolist()
    assert done.kb.train.source is not None
    assert done.kb.train.source.tolist()[-1] == -1
    done.kb.save(tmp_path / "new.kb")
    assert TemporalKB.load(tmp_path / "new.kb") == done.kb


CONFLICTS = {
    "removed and changed": (
        [accept(FIRST, "remove"), accept(FIRST, "change", replace(FIRST, end="1911"), "hole")],
        "another decision on it was taken first (remove)",
    ),
    "changed in two ways": (
        [
            accept(FIRST, "change", replace(FIRST, end="1911")),
            accept(FIRST, "change", replace(FIRST, end="1912"), "hole"),
        ],
        "another decision on it was taken first (change)",
    ),
    "changed into what is removed": ([accept(SECOND, "remove"), accept(FIRST, "change", SECOND)], "takes e0 r1 e2"),
    "changed in a circle": (
        [accept(FIRST, "change", SECOND), accept(SECOND, "change", FIRST)],
        "another decision takes e0 r1 e2",
    ),
    "added and rejected": (
        [accept(FIRST, "add", Stated("e1", "r0", "e0")), reject(Stated("e1", "r0", "e0"), "proposal")],
        "another decision rejects e1 r0 e0",
    ),
    "not there": ([accept(replace(FIRST, begin="1"), "change", replace(FIRST, begin="2"))], "it is not in the KB"),
    "a name that is not there": ([accept(FIRST, "change", replace(FIRST, object="who"))], "does not have the names"),
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_conflicts_are_said(name: str) -> None:
    taken, reason = CONFLICTS[name]
    done = apply(KB, taken)
    assert done.count("conflict") >= 1
    assert reason in done.conflicts[0]


def test_a_fact_that_becomes_another_one_is_merged_with_it() -> None:
    done = apply(KB, [accept(FIRST, "change", SECOND)])
    assert stated_in(done.kb) == sorted([SECOND, THIRD, OPEN], key=str)
    assert (done.count("merged"), done.count("changed")) == (1, 0)


@st.composite
def kb_and_decisions(draw: st.DrawFn) -> tuple[TemporalKB, list[Decision]]:
    """A KB of few names and dates, where decisions meet each other."""
    number = st.integers(0, 2)
    years = st.sampled_from([(1, 2), (2, 2), (-(2**31), 2), (1, 2**31 - 1), (-(2**31), 2**31 - 1), (-5, 12)])
    rows = draw(st.lists(st.tuples(number, st.integers(0, 1), number, years), min_size=1, max_size=8, unique=True))
    kb = kb_of([(s, r, o, *span) for s, r, o, span in rows], 3, 2)
    world = [stated(kb, row) for row in range(len(kb))]
    dates = st.sampled_from([(None, None), ("1", "2"), ("2", "2"), (None, "2"), ("1", None), ("-5", "12")])
    entity = st.sampled_from(["e0", "e1", "e2", "e9"])
    some = st.builds(lambda s, r, o, d: Stated(s, r, o, *d), entity, st.sampled_from(["r0", "r1"]), entity, dates)
    facts = st.sampled_from(world) | some

    @st.composite
    def decision(draw: st.DrawFn) -> Decision:
        kind, fact, verdict = (
            draw(st.sampled_from(["finding", "hole", "proposal"])),
            draw(facts),
            draw(st.sampled_from(["accept", "accept", "accept", "reject", "skip", "undo"])),
        )
        if verdict != "accept":
            return Decision(kind, verdict, fact)  # type: ignore[arg-type]
        action = "add" if kind == "proposal" else draw(st.sampled_from(["change", "remove", "add"]))
        new = None if action == "remove" else replace(draw(facts), relation=fact.relation)
        return accept(fact, action, new, kind)

    return kb, draw(st.lists(decision(), max_size=8))


@given(kb_and_decisions())
@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
def test_applying_twice_is_applying_once(case: tuple[TemporalKB, list[Decision]]) -> None:
    kb, taken = case
    done = apply(kb, taken)
    again = apply(done.kb, taken)
    assert again.kb == done.kb
    assert sum(again.count(what) for what in ("changed", "removed", "added", "merged")) == 0


@given(kb_and_decisions())
@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
def test_the_new_kb_is_what_the_formula_says_and_the_report_counts_it(case: tuple[TemporalKB, list[Decision]]) -> None:
    """The oracle: sets of facts, by what the report says was done."""
    kb, taken = case
    done = apply(kb, taken)
    did = {
        what: [each for each in done.changes if each.outcome == what]
        for what in ("changed", "merged", "removed", "added")
    }
    gone = {each.decision.fact for what in ("changed", "merged", "removed") for each in did[what]}
    came = {each.decision.new for what in ("changed", "added") for each in did[what]}
    before = set(stated_in(kb))
    assert gone <= before
    assert set(stated_in(done.kb)) == (before - gone) | came
    assert len(done.kb) == len(kb) - done.count("removed") - done.count("merged") + done.count("added")
    assert len(stated_in(done.kb)) == len(set(stated_in(done.kb)))
    settled = replay(taken).values()
    assert len(done.changes) == sum(each.verdict == "accept" for each in settled)
    assert done.rejected == sum(each.verdict == "reject" for each in settled)
    # What nobody decided on, or rejected, stays.
    touched = {each.fact for each in settled if each.verdict == "accept"}
    assert before - touched <= set(stated_in(done.kb))


@given(kb_and_decisions())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_rejecting_and_skipping_change_nothing(case: tuple[TemporalKB, list[Decision]]) -> None:
    kb, taken = case
    done = apply(kb, [each for each in taken if each.verdict != "accept"])
    assert done.kb is kb
    assert done.changes == ()


@given(strategies.kbs())
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
def test_every_fact_of_every_kb_can_be_removed_by_its_line(kb: TemporalKB) -> None:
    """Names and dates of all sorts survive the file."""
    taken = [accept(stated(kb, row), "remove") for row in range(len(kb))]
    content = HEADER + b"".join(line_of(each, digest(kb)) for each in taken)
    done = apply(kb, parse(content, "x").decisions)
    assert len(done.kb) == 0
    assert done.count("removed") == len(kb)


# QuickStatements


def test_quickstatements_say_what_they_can() -> None:
    kb = kb_of(
        [(0, 0, 1, 1900, 1910), (1, 0, 2, 1950, 2**31 - 1), (2, 1, 0, 3, 4)], ["Q1", "Q2", "someone"], ["P39", "P6"]
    )
    first, second, third = (stated(kb, row) for row in range(3))
    kb = kb_of(
        [(0, 0, 1, 1900, 1910), (1, 0, 0, 1950, 2**31 - 1), (2, 1, 0, 3, 4)], ["Q1", "Q2", "someone"], ["P39", "P6"]
    )
    first, second, third = (stated(kb, row) for row in range(3))
    more = Stated("Q1", "P6", "Q2", "-44", "-44")
    done = apply(
        kb,
        [
            accept(first, "change", replace(first, begin="1901")),
            accept(second, "change", replace(second, end="1960"), "hole"),
            accept(third, "remove"),
            accept(more, "add", more, "proposal"),
        ],
    )
    found = quickstatements.commands(done)
    assert found.lines == [
        "-Q1\tP39\tQ2",
        "Q1\tP39\tQ2\tP580\t+1901-00-00T00:00:00Z/9\tP582\t+1910-00-00T00:00:00Z/9",
        "Q2\tP39\tQ1\tP580\t+1950-00-00T00:00:00Z/9\tP582\t+1960-00-00T00:00:00Z/9",
        "Q1\tP6\tQ2\tP585\t-0044-00-00T00:00:00Z/9",
    ]
    assert found.left_out == ["remove someone P6 Q1 (3–4): its ids are not Wikidata's"]
