"""`timeplex split`."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Timeplex, contents

from timeplex.kb.facts import TemporalKB


@pytest.fixture
def facts() -> str:
    """100 facts of ten entities, one a year."""
    lines = (f"e{at % 10}\tr\te{(at * 3 + 1) % 10}\t{1900 + at}\t{1905 + at}\n" for at in range(100))
    Path("facts.txt").write_text("".join(lines))
    return "facts.txt"


def test_at_random(timeplex: Timeplex, facts: str) -> None:
    answer = timeplex("split", facts, "-o", "split.kb", "--valid", "0.2", "--test", "0.1", "--seed", "3")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("train 70 · valid 20 · test 10\n")
    assert "How much of a split stands in train" in answer.out
    assert answer.out.endswith("Saved in split.kb. Next: timeplex stats split.kb\n")
    kb = TemporalKB.load("split.kb")
    assert [len(kb.splits[split]) for split in ("train", "valid", "test")] == [70, 20, 10]
    assert timeplex("stats", "split.kb").out.startswith("facts: 100 facts (train 70 · valid 20 · test 10)\n")


def test_the_seed_decides(timeplex: Timeplex, facts: str) -> None:
    for name, seed in (("one.kb", "1"), ("same.kb", "1"), ("other.kb", "2")):
        assert timeplex("split", facts, "-o", name, "--seed", seed).code == 0
    one, same, other = (TemporalKB.load(name) for name in ("one.kb", "same.kb", "other.kb"))
    assert one == same
    assert one != other


def test_by_time(timeplex: Timeplex, facts: str) -> None:
    assert timeplex("split", facts, "-o", "split.kb", "--by-time").code == 0
    kb = TemporalKB.load("split.kb")
    assert kb.train.begin.max() < kb.valid.begin.min()
    assert kb.valid.begin.max() < kb.test.begin.min()
    assert (len(kb.valid), len(kb.test)) == (10, 10)


def test_json_has_the_documented_keys(timeplex: Timeplex, facts: str) -> None:
    answer = timeplex("split", facts, "-o", "split.kb", "--json")
    assert (answer.code, answer.err) == (0, "")
    parts = json.loads(answer.out)
    assert set(parts) == {"splits", "leakage", "folder"}
    assert parts["splits"] == {"train": 80, "valid": 10, "test": 10}
    assert parts["folder"] == "split.kb"
    keys = {"split", "facts", "same_triple", "mirrored", "mirrored_same_span", "same_pair", "unseen_entity"}
    assert [(row["split"], set(row)) for row in parts["leakage"]] == [("valid", keys), ("test", keys)]


@pytest.mark.parametrize(
    ("flags", "why"),
    [([], "no entity in it may be unseen in train"), (["--by-time"], "undated ones in train")],
)
def test_says_why_a_split_is_smaller_than_asked_for(timeplex: Timeplex, flags: list[str], why: str) -> None:
    Path("facts.txt").write_text("".join(f"a{at}\tr\tb{at}\n" for at in range(20)))
    answer = timeplex("split", "facts.txt", "-o", "split.kb", *flags)
    assert answer.code == 0
    assert answer.out.startswith("train 20 · valid 0 · test 0\n")
    assert "Note: valid is smaller than asked for" in answer.out
    assert why in answer.out
    assert "How much" not in answer.out  # of nothing


@pytest.mark.parametrize(
    ("valid", "test"), [("0.5", "0.5"), ("-0.1", "0.1"), ("0.1", "1"), ("nan", "0.1"), ("10", "10")]
)
def test_bad_shares(timeplex: Timeplex, facts: str, valid: str, test: str) -> None:
    before = contents(Path())
    complaint = timeplex("split", facts, "-o", "split.kb", f"--valid={valid}", f"--test={test}").complaint()
    assert "leave nothing for train" in complaint
    assert contents(Path()) == before


def test_all_facts_at_one_instant_cannot_be_split_by_time(timeplex: Timeplex) -> None:
    Path("facts.txt").write_text("a\tr\tb\t1990\t1990\nb\tr\tc\t1990\t1990\n")
    complaint = timeplex("split", "facts.txt", "-o", "split.kb", "--by-time", "--test", "0.5").complaint()
    assert complaint == "All facts of facts begin at 1990. Split at random instead: leave out --by-time."
    assert not Path("split.kb").exists()


def test_a_kb_may_be_split_in_its_place(timeplex: Timeplex, facts: str) -> None:
    assert timeplex("import", facts, "-o", "facts.kb").code == 0
    assert timeplex("split", "facts.kb", "-o", "facts.kb").code == 0
    assert len(TemporalKB.load("facts.kb").test) == 10
    assert sorted(path.name for path in Path().iterdir()) == ["facts.kb", "facts.txt"]


def test_something_else_is_not_overwritten(timeplex: Timeplex, facts: str) -> None:
    Path("mine").mkdir()
    Path("mine/letter.txt").write_text("dear")
    before = contents(Path())
    assert timeplex("split", facts, "-o", "mine").complaint().startswith("mine exists and is not a KB folder.")
    assert contents(Path()) == before
