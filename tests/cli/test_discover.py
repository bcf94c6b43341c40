"""`timeplex discover` as a user calls it."""

import errno
import json
from pathlib import Path

import polars as pl
import pytest
from tests.answers.small_runs import folder, trained
from tests.cli.conftest import Timeplex, contents

from timeplex.answers import discover


def run() -> Path:
    return folder("gadgets")


def relation() -> str:
    return trained().kb.relations[0]


def test_a_ranked_table(timeplex: Timeplex) -> None:
    answer = timeplex("discover", run(), "-o", "out.csv", "--min-prob", "0", "--most", "20", "--show", "2")
    assert answer.code == 0, answer.err
    assert answer.out.endswith("20 facts with a probability of at least 0, saved in out.csv.\n")
    found = pl.read_csv("out.csv", infer_schema=False)
    expected = trained().discover(min_probability=0.0, limit=20)
    assert found.columns == expected.columns
    assert found.drop("probability").rows() == expected.drop("probability").rows()
    assert found["probability"].cast(pl.Float64).to_list() == expected["probability"].to_list()
    assert answer.out.count(found["subject"][0]) >= 1


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".tsv.gz"])
def test_other_formats(timeplex: Timeplex, suffix: str) -> None:
    arguments = ["--relation", relation(), "--min-prob", "0", "--most", "3"]
    assert timeplex("discover", run(), "-o", f"out{suffix}", *arguments).code == 0
    assert timeplex("discover", run(), "-o", "out.csv", *arguments).code == 0
    read = {
        ".jsonl": pl.read_ndjson,
        ".parquet": pl.read_parquet,
        ".tsv.gz": lambda path: pl.read_csv(path, separator="\t", infer_schema=False),
    }[suffix](f"out{suffix}")
    texts = read.with_columns(pl.all().cast(pl.String))
    assert texts.rows() == pl.read_csv("out.csv", infer_schema=False).rows()


def test_json_and_nothing_found(timeplex: Timeplex) -> None:
    told = json.loads(
        timeplex(
            "discover", run(), "-o", "out.csv", "--relation", relation(), "--min-prob", "0", "--most", "9", "--json"
        ).out
    )
    assert set(told) == {*trained().about, "calibration", "found", "file", "facts"}
    assert len(told["facts"]) == min(5, told["found"])
    answer = timeplex("discover", run(), "-o", "none.csv", "--relation", relation(), "--min-prob", "1")
    assert answer.out.endswith("\n0 facts with a probability of at least 1, saved in none.csv.\n")
    meant = "A probability is the share of such proposals that were found to be true"
    assert (meant if trained().proposals.facts else "Probabilities are not calibrated") in answer.out
    assert Path("none.csv").read_text() == "subject,relation,object,begin,end,probability,reason\n"


FAILURES = {
    "suffix": (["-o", "out.xlsx"], "out.xlsx has no suffix that says how to write it."),
    "folder": (["-o", "folder.csv"], "folder.csv is a folder."),
    "place": (["-o", "file/out.csv"], "file/out.csv cannot be written"),
    "relation": (["-o", "out.csv", "--relation", "flewWith"], "unknown relation 'flewWith'"),
    "probability": (["-o", "out.csv", "--min-prob", "-1"], "-1.0 is not a probability."),
    "number": (["-o", "out.csv", "--most", "0"], "0 facts cannot be found."),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_failure_is_one_sentence_and_leaves_nothing(timeplex: Timeplex, case: str) -> None:
    Path("folder.csv").mkdir()
    Path("file").touch()
    arguments, sentence = FAILURES[case]
    before = contents(Path())
    assert timeplex("discover", run(), *arguments).complaint().startswith(sentence)
    assert contents(Path()) == before


def test_a_relation_with_too_few_facts(timeplex: Timeplex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discover, "LEAST_FACTS", 10_000)
    complaint = timeplex("discover", run(), "-o", "out.csv", "--relation", relation()).complaint()
    assert complaint.startswith(f"{relation()} has ")
    assert complaint.endswith("Name relations with at least 10000, or none for all of them.")


def test_the_run_folder_is_left_alone(timeplex: Timeplex) -> None:
    trained().calibration  # noqa: B018 - which is kept there
    before = contents(run())
    complaint = timeplex("discover", run(), "-o", run() / "out.csv").complaint()
    assert complaint == f"{run() / 'out.csv'} lies in the run folder. Choose another place with -o."
    assert contents(run()) == before


def test_a_full_disk(timeplex: Timeplex, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("timeplex.files.os.fsync", full)
    arguments = ["-o", "out.csv", "--relation", relation(), "--most", "1"]
    complaint = timeplex("discover", run(), *arguments).complaint()
    assert complaint == "out.csv cannot be written: No space left on device. Free some space, and repeat the command."
    assert list(Path().iterdir()) == []
