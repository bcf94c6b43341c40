"""`timeplex stats`."""

import json
import os
from pathlib import Path

import pytest
from tests.cli.conftest import Timeplex

KEYS = {
    "name", "granularity", "facts", "splits", "entities", "relations", "first", "last", "instants", "both_ends_known",
    "events", "open_begins", "open_ends", "unusable_begins", "unusable_ends", "reversed_spans", "recurring_triples",
    "rows_read", "rows_set_aside", "problems", "leakage", "by_relation", "histogram",
}  # fmt: skip

FACTS = (
    "a\tr\tb\t1990\t1994\n"
    "a\tr\tb\t1996\t1998\n"  # recurs
    "b\tr\tc\t1990\t####\n"
    "c\tborn\td\t1950\t1950\n"
)


def test_says_what_is_in_a_file(timeplex: Timeplex) -> None:
    Path("facts.txt").write_text(FACTS)
    answer = timeplex("stats", "facts.txt")
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[0] == "facts: 4 facts (train 4)"
    assert lines[1] == "4 entities · 2 relations · 5 instants from 1950 to 1998 by year"
    assert lines[2] == "1 event (begin = end) · 1 open end · 0 open begins · 1 recurring triple"
    rows = {line.split()[0]: line.split()[1:] for line in lines[5:8] if line.strip()}
    assert rows["r"] == ["3", "0", "%", "4.0", "0", "%", "33", "%"]  # 5 and 3 years: the median is 4
    assert rows["born"] == ["1", "100", "%", "1.0", "0", "%", "0", "%"]
    bars = [line for line in lines if "█" in line]
    assert bars[0].split()[-1] == "1"
    assert bars[-1].startswith("  1996")


def test_json_has_the_documented_keys(timeplex: Timeplex) -> None:
    Path("facts.txt").write_text(FACTS)
    answer = timeplex("stats", "facts.txt", "--json")
    assert (answer.code, answer.err) == (0, "")
    described = json.loads(answer.out)
    assert set(described) == KEYS
    assert (described["first"], described["last"], described["open_ends"]) == ("1950", "1998", 1)
    assert [row["relation"] for row in described["by_relation"]] == ["r", "born"]


def test_the_sample(timeplex: Timeplex) -> None:
    described = json.loads(timeplex("stats", "sample", "--json").out)
    answer = timeplex("stats", "sample")
    sizes = " · ".join(f"{split} {number:,}" for split, number in described["splits"].items())
    assert answer.out.startswith(f"sample: {described['facts']:,} facts ({sizes})\n")
    assert set(described["splits"]) == {"train", "valid", "test"}
    for row in described["by_relation"]:
        assert f" {row['relation']} " in answer.out
    assert "Facts by the time they begin" in answer.out
    assert "How much of a split stands in train" in answer.out
    assert [row["unseen_entity"] for row in described["leakage"]] == [0, 0]


def test_a_kb_without_dates(timeplex: Timeplex) -> None:
    Path("facts.txt").write_text("a\tr\tb\nc\tr\tb\n")
    answer = timeplex("stats", "facts.txt")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines()[:2] == [
        "facts: 2 facts (train 2)",
        "3 entities · 1 relation · 0 recurring triples · no date at all",
    ]
    assert [line.split() for line in answer.out.splitlines()[2:] if line.strip() and "─" not in line] == [
        ["relation", "facts"],
        ["r", "2"],
    ]
    described = json.loads(timeplex("stats", "facts.txt", "--json").out)
    assert (described["first"], described["last"], described["histogram"]) == (None, None, [])


def test_many_relations_are_cut_and_said_to_be(timeplex: Timeplex) -> None:
    Path("facts.txt").write_text("".join(f"a\tr{number:02}\tb\t1990\t1991\n" for number in range(33)))
    answer = timeplex("stats", "facts.txt")
    assert "r29" in answer.out
    assert "r30" not in answer.out
    assert "… and 3 more relations (all with --json)" in answer.out
    assert len(json.loads(timeplex("stats", "facts.txt", "--json").out)["by_relation"]) == 33


def test_a_folder_with_labels(timeplex: Timeplex) -> None:
    folder = Path("data")
    folder.mkdir()
    (folder / "train.txt").write_text("Q1\tP1\tQ2\t1990\t1991\n")
    (folder / "relation_labels.tsv").write_text("P1\tmember of\n")
    assert " member of (P1) " in timeplex("stats", "data").out


def test_problems_name_the_command_that_shows_them(timeplex: Timeplex) -> None:
    Path("my facts.txt").write_text("a\tr\tb\t1990\t1980\n")
    answer = timeplex("stats", "my facts.txt")
    assert "1 begin after end (see: timeplex problems 'my facts.txt')" in answer.out
    assert "1 reversed span ·" in answer.out


@pytest.mark.parametrize(
    ("name", "suggested"),
    [("yago11", "'yago11k'"), ("Sampel", "'sample'"), ("ICEWS05_15", "'icews05-15'"), ("zzzzzz", "wikidata12k")],
)
def test_an_unknown_name_is_answered_with_a_known_one(timeplex: Timeplex, name: str, suggested: str) -> None:
    complaint = timeplex("stats", name).complaint()
    assert complaint.startswith(f"'{name}' is neither")
    assert suggested in complaint


def test_a_folder_without_train(timeplex: Timeplex) -> None:
    Path("empty").mkdir()
    assert timeplex("stats", "empty").complaint().startswith("empty is a folder with neither")
    Path("half").mkdir()
    Path("half/test.txt").write_text("a\tr\tb\t1990\t1991\n")
    assert timeplex("stats", "half").complaint().startswith("half has no train file.")


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt", ".jsonl", ".parquet", ".csv.gz"])
def test_a_binary_file(timeplex: Timeplex, suffix: str) -> None:
    path = Path(f"noise{suffix}")
    path.write_bytes(b"\x00\x01" + os.urandom(3000))
    assert str(path) in timeplex("stats", path).complaint()


@pytest.mark.parametrize(
    ("suffix", "what"),
    [(".csv", "is empty."), (".txt", "is empty."), (".jsonl", "is empty."), (".parquet", "is not a readable Parquet")],
)
def test_an_empty_file(timeplex: Timeplex, suffix: str, what: str) -> None:
    path = Path(f"nothing{suffix}")
    path.touch()
    assert timeplex("stats", path).complaint().startswith(f"{path} {what}")


def test_an_unknown_suffix(timeplex: Timeplex) -> None:
    Path("facts.xyz").write_text(FACTS)
    complaint = timeplex("stats", "facts.xyz").complaint()
    assert complaint.startswith("facts.xyz has no suffix")
    assert ".csv" in complaint


def test_only_benchmarks_are_looked_for_in_the_data_folder(timeplex: Timeplex) -> None:
    assert "does not hold the train facts" in _damaged_benchmark(timeplex)


def _damaged_benchmark(timeplex: Timeplex) -> str:
    folder = Path("data/yago11k")
    folder.mkdir(parents=True)
    for split in ("train", "valid", "test"):
        (folder / f"{split}.txt").write_text(FACTS)
    return timeplex("stats", "yago11k", "--data-dir", "data").complaint()


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("verb", ["stats", "problems", "split"])
@pytest.mark.parametrize("file", ["facts.parquet", "entities.parquet", "kb.json", "problems.parquet"])
def test_a_damaged_kb_folder(timeplex: Timeplex, careers: Path, verb: str, file: str) -> None:
    flip(careers / file)
    output = ["-o", "split.kb"] if verb == "split" else []
    complaint = timeplex(verb, careers, *output).complaint()
    assert complaint.startswith(f"{careers / file} has been changed or damaged.")
    assert not Path("split.kb").exists()


def test_a_kb_folder_with_parts_missing(timeplex: Timeplex, careers: Path) -> None:
    (careers / "relations.parquet").unlink()
    assert timeplex("stats", careers).complaint().startswith(f"{careers}/relations.parquet is missing.")
    (careers / "MANIFEST.json").write_bytes(b"\xff{")
    assert timeplex("stats", careers).complaint().startswith(f"{careers}/MANIFEST.json is not JSON.")
    (careers / "MANIFEST.json").write_text("[]")
    assert "is not what it should be" in timeplex("stats", careers).complaint()
    (careers / "MANIFEST.json").unlink()
    assert "with neither a KB nor a train file" in timeplex("stats", careers).complaint()
