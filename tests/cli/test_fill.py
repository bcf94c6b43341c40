"""`timeplex fill` as a user calls it."""

import errno
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.answers.small_runs import folder, trained
from tests.cli.conftest import COMMAND, Timeplex, contents

from timeplex.kb.store import write_frame

HEADER = "id,subject,relation,object,begin,end,note\n"
ADDED = ["object_predicted", "begin_predicted", "end_predicted", "probability", "still_going_on", "reason"]


@pytest.fixture
def holes() -> Path:
    """A CSV with a row of each kind."""
    kb = trained().kb
    s, r, o, begin, _ = next(iter(kb.train[:1]))
    a, b, c = kb.entities[s], kb.relations[r], kb.entities[o]
    rows = [
        f"007,{a},{b},,{begin},{begin},x",
        f'008,{a},{b},{c},{begin},,"y, z"',
        f"009,{a},{b},{c},,,",
        f"010,Nobody,{b},{c},,,ü",
        f"011,{a},{b},{c},{begin},{begin},",
    ]
    path = Path("holes.csv")
    path.write_text(HEADER + "\n".join(rows) + "\n")
    return path


def run() -> Path:
    return folder("gadgets")


def test_a_file_comes_back_with_columns_added(timeplex: Timeplex, holes: Path) -> None:
    answer = timeplex("fill", run(), holes, "-o", "out.csv")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("5 rows, 3 filled\n  1 row left: ")
    assert "  1 row left: the row has no hole\n" in answer.out
    assert answer.out.endswith("Saved in out.csv.\n")
    before, after = holes.read_text().splitlines(), Path("out.csv").read_text().splitlines()
    assert after[0] == before[0] + "," + ",".join(ADDED)
    assert [new.startswith(old + ",") for old, new in zip(before, after, strict=True)] == [True] * 6
    frame = pl.read_csv("out.csv", infer_schema=False)
    assert frame["object_predicted"].is_not_null().to_list() == [True, False, False, False, False]
    assert frame["end_predicted"].is_not_null().to_list() == [False, True, True, False, False]
    assert frame["reason"].null_count() == 0


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz", ".ndjson.gz"])
def test_every_format_in_and_out(timeplex: Timeplex, holes: Path, suffix: str) -> None:
    assert timeplex("fill", run(), holes, "-o", f"out{suffix}").code == 0
    assert timeplex("fill", run(), holes, "-o", "out.parquet").code == 0
    expected = pl.read_parquet("out.parquet")
    again = Path(f"again{suffix}")
    write_frame(expected.drop(ADDED), again)
    assert timeplex("fill", run(), again, "-o", "twice.parquet").code == 0
    assert pl.read_parquet("twice.parquet").rows() == expected.rows()
    data = Path(f"out{suffix}").read_bytes()
    assert (data[:2] == b"\x1f\x8b") == suffix.endswith(".gz")


def test_json(timeplex: Timeplex, holes: Path) -> None:
    told = json.loads(timeplex("fill", run(), holes, "-o", "out.csv", "--json").out)
    assert told == {
        **trained().about,
        "rows": 5,
        "filled": 3,
        "columns": {"object_predicted": 1, "begin_predicted": 1, "end_predicted": 2},
        "file": "out.csv",
    }


def test_columns_relation_and_encoding_can_be_named(timeplex: Timeplex) -> None:
    kb = trained().kb
    s, r, o, *_ = next(iter(kb.train[:1]))
    Path("odd.csv").write_bytes(f"wer;wen;von;é\n{kb.entities[s]};{kb.entities[o]};;ü\n".encode("cp1252"))
    names = ["--subject", "wer", "--object", "wen", "--begin", "von", "--relation", f"={kb.relations[r]}"]
    answer = timeplex("fill", run(), "odd.csv", "-o", "out.csv", *names, "--encoding", "cp1252")
    assert answer.code == 0, answer.err
    assert Path("out.csv").read_text().startswith("wer;wen;von;é;wen_predicted;von_predicted;probability;reason\n")


def test_the_least_probability(timeplex: Timeplex, holes: Path) -> None:
    kb = trained().kb
    stated = set(kb.facts.o[kb.facts.of_subject_relation(int(kb.train.s[0]), int(kb.train.r[0]))].tolist())
    o = next(each for each in kb.train.o.tolist() if each not in stated)
    fact = kb.entities[int(kb.train.s[0])], kb.relations[int(kb.train.r[0])], kb.entities[o]
    Path("new.csv").write_text(HEADER + f"1,{','.join(fact)},,,\n")
    answer = timeplex("fill", run(), "new.csv", "-o", "out.csv", "--min-prob", "1")
    assert "the best answer has a probability of only" in answer.out
    complaint = timeplex("fill", run(), holes, "-o", "new.csv", "--min-prob", "2").complaint()
    assert complaint == "2.0 is not a probability. Give a number from 0 to 1."


def test_many_reasons_are_cut(timeplex: Timeplex) -> None:
    Path("t.csv").write_text(HEADER + "".join(f"{n},Nobody{n},x,y,,,\n" for n in range(9)))
    answer = timeplex("fill", run(), "t.csv", "-o", "out.csv")
    assert answer.out.startswith("9 rows, 0 filled\n")
    assert "  4 rows left for other reasons\n" in answer.out


def failures() -> dict[str, tuple[list[str], str]]:
    """Arguments that cannot work, and how the sentence begins."""
    return {
        "no such file": (["absent.csv", "-o", "new.csv"], "absent.csv does not exist."),
        "a folder": (["folder.csv", "-o", "new.csv"], "folder.csv is a folder, not a file."),
        "suffix": (["holes.csv", "-o", "new.xlsx"], "new.xlsx has no suffix that says what it is."),
        "text": (["holes.csv", "-o", "new.txt"], "new.txt has no suffix that says what it is."),
        "suffix of the table": (["holes.txt", "-o", "new.csv"], "holes.txt has no suffix that says what it is."),
        "wrong column": (["holes.csv", "-o", "new.csv", "--subject", "wer"], "holes.csv has no column 'wer'."),
        "wrong table": (
            ["strange.csv", "-o", "new.csv"],
            "strange.csv has no column for the subject, the relation, the object.",
        ),
        "one column twice": (["holes.csv", "-o", "new.csv", "--object", "subject"], "Two roles of holes.csv"),
        "empty": (["empty.csv", "-o", "new.csv"], "empty.csv is empty."),
        "only a header": (["header.csv", "-o", "new.csv"], "header.csv is empty."),
        "itself": (["holes.csv", "-o", "holes.csv"], "holes.csv is the table itself."),
        "itself by another way": (
            ["holes.csv", "-o", "folder.csv/../holes.csv"],
            "folder.csv/../holes.csv is the table",
        ),
        "out is a folder": (["holes.csv", "-o", "folder.csv"], "folder.csv is a folder."),
        "no place": (["holes.csv", "-o", "holes.csv/new.csv"], "holes.csv/new.csv cannot be written"),
        "column taken": (["taken.csv", "-o", "new.csv"], "taken.csv has a column 'reason' already."),
        "encoding": (["holes.csv", "-o", "new.csv", "--encoding", "x-none"], "'x-none' is not an encoding."),
    }


@pytest.mark.parametrize("case", failures())
def test_a_failure_is_one_sentence_and_leaves_nothing(timeplex: Timeplex, holes: Path, case: str) -> None:
    Path("folder.csv").mkdir()
    Path("holes.txt").write_text(holes.read_text())
    Path("strange.csv").write_text("x,y,z,u,v,w\n1,2,3,4,5,6\n")
    Path("empty.csv").touch()
    Path("header.csv").write_text(HEADER)
    Path("taken.csv").write_text("subject,relation,object,reason\na,b,c,d\n")
    arguments, sentence = failures()[case]
    before = contents(Path())
    assert timeplex("fill", run(), *arguments).complaint().startswith(sentence)
    assert contents(Path()) == before
    assert not list(Path().glob(".*"))


def test_a_full_disk_leaves_the_old_file(timeplex: Timeplex, holes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("out.csv").write_text("old")
    before = contents(Path())

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("timeplex.files.os.fsync", full)
    complaint = timeplex("fill", run(), holes, "-o", "out.csv").complaint()
    assert complaint == "out.csv cannot be written: No space left on device. Free some space, and repeat the command."
    assert contents(Path()) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("verb", ["fill", "discover"])
def test_a_read_only_folder(timeplex: Timeplex, holes: Path, verb: str) -> None:
    Path("closed").mkdir(mode=0o500)
    arguments = [holes] if verb == "fill" else []
    assert "closed/out.csv cannot be written" in timeplex(verb, run(), *arguments, "-o", "closed/out.csv").complaint()


def test_a_read_only_file_system(timeplex: Timeplex, holes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("timeplex.files._create_file", refuse)
    monkeypatch.setattr("timeplex.answers.trained.load", refuse)  # it is looked at before anything is loaded
    for arguments in (["fill", run(), holes], ["discover", run()]):
        complaint = timeplex(*arguments, "-o", "out.csv").complaint()
        assert complaint == "out.csv cannot be written: Read-only file system. Choose another place."


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_device_that_is_always_full(holes: Path) -> None:
    with Path("/dev/full").open("w") as full:
        arguments = [COMMAND, "fill", run(), holes, "-o", "out.csv"]
        done = subprocess.run(arguments, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode != 0
    assert b"Traceback" not in done.stderr
