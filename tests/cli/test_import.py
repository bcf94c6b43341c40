"""`timeplex import`."""

import errno
import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.cli.conftest import EXAMPLES, Timeplex, contents
from tests.cli.test_stats import KEYS
from tests.strategies import sheet

from timeplex.errors import InputError
from timeplex.kb.facts import TemporalKB
from timeplex.sources import read

CAREERS = EXAMPLES / "careers.csv"
ERRORS = {
    7: "begin after end",
    9: "exact duplicate",
    13: "unreadable date",
    14: "empty field",
    17: "implausible instant",
    20: "unknown year",
    21: "wrong column count",
}


def rows(folder: str | Path) -> list[tuple[str, ...]]:
    """The facts of a KB folder in words."""
    return TemporalKB.load(folder).to_polars().drop("split").rows()


def test_every_error_of_the_example_is_reported_with_its_line(timeplex: Timeplex) -> None:
    answer = timeplex("import", CAREERS, "-o", "careers.kb", "--object", "organisation")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("24 rows read = 21 facts + 3 rows set aside\n")
    for line, kind in ERRORS.items():
        assert f"\n {line:<6} {kind} " in answer.out
    assert answer.out.endswith("Saved in careers.kb. Next: timeplex stats careers.kb\n")
    found = json.loads(timeplex("problems", "careers.kb", "--json").out)["problems"]
    assert {row["line"]: row["kind"] for row in found} == ERRORS
    # The lines are those of the file, as an editor counts them.
    source = CAREERS.read_text().splitlines()
    assert [source[row["line"] - 1] for row in found] == [row["row"] for row in found]


def test_import_then_stats_then_problems_then_split(timeplex: Timeplex) -> None:
    assert timeplex("import", CAREERS, "-o", "careers.kb", "--object", "organisation").code == 0
    assert timeplex("stats", "careers.kb").out.startswith("careers: 21 facts (train 21)\n14 entities · 3 relations · ")
    assert timeplex("problems", "careers.kb", "-o", "odd.parquet").code == 0
    assert pl.read_parquet("odd.parquet")["line"].to_list() == list(ERRORS)
    assert timeplex("split", "careers.kb", "-o", "split.kb", "--seed", "1").out.startswith(
        "train 17 · valid 2 · test 2"
    )
    assert sorted(rows("split.kb")) == sorted(rows("careers.kb"))
    assert len(json.loads(timeplex("problems", "split.kb", "--json").out)["problems"]) == len(ERRORS)


def test_json_has_the_documented_keys(timeplex: Timeplex) -> None:
    answer = timeplex("import", CAREERS, "-o", "careers.kb", "--object", "organisation", "--json")
    assert (answer.code, answer.err) == (0, "")
    imported = json.loads(answer.out)
    assert set(imported) == {*KEYS, "folder", "notes", "columns_not_used", "columns_of_one_name", "names_alike"}
    assert imported["columns_not_used"] == ["note"]
    assert (imported["facts"], imported["rows_set_aside"], imported["folder"]) == (21, 3, "careers.kb")


def test_every_column_can_be_named(timeplex: Timeplex) -> None:
    Path("odd.csv").write_text("bis,von,wen,wie,wer\n1995-03,1990-02,Bo,liebt,Al\n")
    names = {"subject": "wer", "relation": "wie", "object": "wen", "begin": "von", "end": "bis"}
    options = [part for role, column in names.items() for part in (f"--{role}", column)]
    assert timeplex("import", "odd.csv", "-o", "odd.kb", *options).code == 0
    assert rows("odd.kb") == [("Al", "liebt", "Bo", "1990-02", "1995-03")]
    assert timeplex("import", "odd.csv", "-o", "odd.kb", *options, "--granularity", "year").code == 0
    assert rows("odd.kb") == [("Al", "liebt", "Bo", "1990", "1995")]


def test_one_relation_for_all_rows_and_one_date(timeplex: Timeplex) -> None:
    Path("born.tsv").write_text("who\twhere\twhen\nAda\tLondon\t1815-12-10\n")
    options = ["--subject", "who", "--object", "where", "--begin", "when", "--relation", "=bornIn"]
    answer = timeplex("import", "born.tsv", "-o", "born.kb", *options, "--granularity", "day")
    assert answer.code == 0
    assert rows("born.kb") == [("Ada", "bornIn", "London", "1815-12-10", "1815-12-10")]


def test_days_for_few_facts_are_remarked_upon(timeplex: Timeplex) -> None:
    Path("facts.txt").write_text("a\tr\tb\t2001-01-01\t2001-12-31\n")
    answer = timeplex("import", "facts.txt", "-o", "facts.kb")
    assert "Note: there are 365 days for 1 fact; a coarser --granularity may serve.\n" in answer.out
    assert "Note: there" not in timeplex("import", "facts.txt", "-o", "facts.kb", "--granularity", "year").out


def test_labels(timeplex: Timeplex) -> None:
    Path("facts.txt").write_text("Q1\tP1\tQ2\t1990\t1991\n")
    Path("labels.tsv").write_text("Q1\tÅsa\nQ9\tnot in the facts\n")
    assert timeplex("import", "facts.txt", "-o", "facts.kb", "--labels", "labels.tsv").code == 0
    kb = TemporalKB.load("facts.kb")
    assert {kb.entities.label(number) for number in range(len(kb.entities))} == {"Åsa", "Q2"}


def test_encoding(timeplex: Timeplex) -> None:
    Path("facts.csv").write_bytes("subject,relation,object,begin\nZoë,naît à,Orléans – Œuvre,1990\n".encode("cp1252"))
    assert timeplex("import", "facts.csv", "-o", "facts.kb", "--encoding", "cp1252").code == 0
    assert rows("facts.kb") == [("Zoë", "naît à", "Orléans – Œuvre", "1990", "1990")]
    wrong = timeplex("import", "facts.csv", "-o", "new.kb", "--encoding", "latin-one-and-a-half").complaint()
    assert wrong == "'latin-one-and-a-half' is not an encoding. Try utf-8, cp1252 or utf-16."


def test_several_files_and_gzip(timeplex: Timeplex) -> None:
    Path("one.csv").write_text("subject,relation,object,begin,end\na,r,b,1990,1991\n")
    Path("two.txt.gz").write_bytes(gzip.compress(b"a\tr\tc\t1992\t1993\na\tr\tb\t1990\t1991\n"))
    answer = timeplex("import", "one.csv", "two.txt.gz", "-o", "both.kb")
    assert answer.code == 0
    assert answer.out.startswith("3 rows read = 2 facts + 1 row set aside\n")  # one fact stands in both
    assert rows("both.kb") == [("a", "r", "b", "1990", "1991"), ("a", "r", "c", "1992", "1993")]


def failing_imports() -> dict[str, tuple[list[str], str]]:
    """Arguments that cannot work, and how the sentence begins."""
    return {
        "no such file": (["absent.csv"], "absent.csv does not exist."),
        "one of two is missing": (["good.csv", "absent.csv"], "absent.csv does not exist."),
        "a folder": (["folder"], "folder is a folder, not a file."),
        "binary": (["binary.csv"], "binary.csv is not a table of text."),
        "empty": (["empty.csv"], "empty.csv is empty."),
        "suffix": (["good.xls"], "good.xls has no suffix"),
        "broken gzip": (["broken.csv.gz"], "broken.csv.gz is not a whole gzip file."),
        "missing column": (["good.csv", "--subject", "sujbect"], "good.csv has no column 'sujbect'."),
        "column not guessed": (["strange.csv"], "strange.csv has no column for the subject, the relation, the object."),
        "one column twice": (["good.csv", "--object", "subject"], "Two roles of good.csv"),
        "granularity": (["good.csv", "--granularity", "week"], "'week' is not a granularity. Use year, month or day."),
        "labels": (["good.csv", "--labels", "absent.tsv"], "absent.tsv does not exist"),
        "encoding": (["latin.csv", "--encoding", "utf-8"], "latin.csv is not text in utf-8."),
        "no fact": (["header.csv"], "No row of header is a fact. The first problem is in line 2: the object is empty."),
    }


@pytest.fixture
def bad_files() -> None:
    header = "subject,relation,object,begin,end\n"
    Path("good.csv").write_text(header + "a,r,b,1990,1991\n")
    Path("good.xls").write_text(header + "a,r,b,1990,1991\n")
    Path("folder").mkdir()
    Path("binary.csv").write_bytes(bytes(range(256)) * 4)
    Path("empty.csv").touch()
    Path("broken.csv.gz").write_bytes(gzip.compress(b"a,r,b\n" * 99)[:-9])
    Path("strange.csv").write_text("x,y,z,u,v,w\n1,2,3,4,5,6\n")
    Path("latin.csv").write_bytes(header.encode() + b"Zo\xeb,r,b,1990,1991\n")
    Path("header.csv").write_text(header + "a,r,,1990,1991\n")


@pytest.mark.usefixtures("bad_files")
@pytest.mark.parametrize("case", failing_imports())
def test_a_failed_import_is_one_sentence_and_leaves_the_old_kb_alone(timeplex: Timeplex, case: str) -> None:
    arguments, sentence = failing_imports()[case]
    before = contents(Path())
    assert timeplex("import", *arguments, "-o", "new.kb").complaint().startswith(sentence)
    assert contents(Path()) == before
    assert timeplex("import", "good.csv", "-o", "old.kb").code == 0
    before = contents(Path())
    timeplex("import", *arguments, "-o", "old.kb").complaint()
    assert contents(Path()) == before


@pytest.mark.usefixtures("bad_files")
def test_only_a_header(timeplex: Timeplex) -> None:
    Path("only.csv").write_text("subject,relation,object,begin,end\n")
    timeplex("import", "only.csv", "-o", "new.kb").complaint()


@pytest.mark.usefixtures("bad_files")
def test_a_full_disk_leaves_the_old_kb_alone(timeplex: Timeplex, monkeypatch: pytest.MonkeyPatch) -> None:
    assert timeplex("import", CAREERS, "-o", "old.kb", "--object", "organisation").code == 0
    before = contents(Path())

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("timeplex.files._exchange", full)  # all is written by then
    complaint = timeplex("import", "good.csv", "-o", "old.kb").complaint()
    assert complaint == "old.kb cannot be written: No space left on device. Free some space, and repeat the command."
    assert contents(Path()) == before


@pytest.mark.usefixtures("bad_files")
def test_importing_again_replaces_the_old_kb(timeplex: Timeplex) -> None:
    assert timeplex("import", CAREERS, "-o", "my.kb", "--object", "organisation").code == 0
    names = sorted(path.name for path in Path().iterdir())
    assert timeplex("import", "good.csv", "-o", "my.kb").code == 0
    assert rows("my.kb") == [("a", "r", "b", "1990", "1991")]
    assert sorted(path.name for path in Path().iterdir()) == names  # hidden ones, too


@pytest.mark.usefixtures("bad_files")
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_something_else_is_not_overwritten(timeplex: Timeplex, kind: str) -> None:
    if kind == "folder":
        Path("mine").mkdir()
    Path("mine/letter.txt" if kind == "folder" else "mine").write_text("dear")
    before = contents(Path())
    complaint = timeplex("import", "good.csv", "-o", "mine").complaint()
    assert complaint == "mine exists and is not a KB folder. Choose another name, or remove it first."
    assert contents(Path()) == before


@pytest.mark.parametrize("verb", ["import", "split"])
def test_the_place_is_looked_at_before_hours_of_reading(
    timeplex: Timeplex, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    Path("mine").write_text("dear")

    def read(*_: Any, **__: Any) -> None:
        raise AssertionError("it reads first")

    monkeypatch.setattr("timeplex.sources.read", read)
    assert timeplex(verb, CAREERS, "-o", "mine").complaint().startswith("mine exists")


@pytest.mark.usefixtures("bad_files")
def test_an_empty_folder_is_used_and_parents_are_made(timeplex: Timeplex) -> None:
    Path("here").mkdir()
    for place in ("here", "far/away/my.kb"):
        assert timeplex("import", "good.csv", "-o", place).code == 0
        assert rows(place) == [("a", "r", "b", "1990", "1991")]


@pytest.mark.usefixtures("bad_files")
def test_a_folder_may_have_any_name(timeplex: Timeplex) -> None:
    for place in ("[my].kb", "what?.kb", "a*b.kb"):
        assert timeplex("import", "good.csv", "-o", place).code == 0
        assert timeplex("stats", place).code == 0


@pytest.mark.usefixtures("bad_files")
def test_the_installed_command_fails_the_same_way(installed: Timeplex) -> None:
    before = contents(Path())
    assert installed("import", "binary.csv", "-o", "new.kb").complaint().startswith("binary.csv is not a table")
    assert contents(Path()) == before


def test_events_alone_are_remarked_upon(timeplex: Timeplex) -> None:
    note = "Note: every fact is an event"
    Path("a.csv").write_text("subject,relation,object,begin,quits\nAna,playsFor,Ajax,1998,2003\n")
    assert note in timeplex("import", "a.csv", "-o", "a.kb").out
    assert note not in timeplex("import", "a.csv", "-o", "b.kb", "--end", "quits").out
    Path("c.csv").write_text("subject,relation,object,started,finished\nAna,playsFor,Ajax,1998,2003\n")
    found = timeplex("import", "c.csv", "-o", "c.kb")
    assert note not in found.out
    assert TemporalKB.load("c.kb").to_polars().row(0)[-2:] == ("1998", "2003")


# Dates


def test_a_spreadsheet_of_a_european_excel_needs_no_option(timeplex: Timeplex) -> None:
    table = "Person;Relation;Object;Begin;End\r\nMüller;arbeitet für;Firma;31.12.1999;1.2.2003\r\n"
    table += '"Weiß; Co";arbeitet für;Firma;1.1.2000;\r\n'
    Path("excel.csv").write_bytes(b"\xef\xbb\xbf" + table.encode())
    answer = timeplex("import", "excel.csv", "-o", "excel.kb")
    assert (answer.code, answer.err) == (0, "")
    assert rows("excel.kb") == [
        ("Müller", "arbeitet für", "Firma", "1999-12-31", "2003-02-01"),
        ("Weiß; Co", "arbeitet für", "Firma", "2000-01-01", None),
    ]


def test_too_many_unreadable_dates_are_exit_code_3_and_nothing_is_written(timeplex: Timeplex) -> None:
    lines = [f"a{row},r,b,{row % 28 + 1}/12/{90 + row % 9},present" for row in range(40)]
    Path("short.csv").write_text("subject,relation,object,begin,end\n" + "\n".join(lines))
    before = contents(Path())
    for verb in (
        ("import", "short.csv", "-o", "short.kb"),
        ("stats", "short.csv"),
        ("train", "short.csv", "-o", "run"),
    ):
        answer = timeplex(*verb)
        assert (answer.code, answer.out) == (3, "")
        assert answer.err.startswith("error: 40 of 40 dates cannot be read: ")
        assert "the like 40 times. Try --date-format %d/%m/%y for " in answer.err
        assert contents(Path()) == before
    read = timeplex("import", "short.csv", "-o", "short.kb", "--date-format", "%d/%m/%y")
    assert (read.code, rows("short.kb")[0][3:]) == (0, ("1990-12-01", None))
    allowed = timeplex("import", "short.csv", "-o", "open.kb", "--allow-unread-dates")
    assert allowed.code == 0
    assert allowed.out.startswith("Note: 40 of 40 dates cannot be read")
    untrained = timeplex("train", "open.kb", "-o", "run", "--model", "complex")
    assert untrained.code == 2
    assert "error: No fact of short has a date, so that there is nothing to learn of time." in untrained.err
    assert not Path("run").exists()


def test_options_of_dates(timeplex: Timeplex) -> None:
    Path("a.csv").write_text("subject,relation,object,date\na,r,b,1/2/1999\n")
    for option, expected in (("--dayfirst", "1999-02-01"), ("--monthfirst", "1999-01-02")):
        assert timeplex("import", "a.csv", "-o", "a.kb", option).code == 0
        assert rows("a.kb")[0][3] == expected
    assert "Note: Nothing shows whether 1/2/1999" in timeplex("import", "a.csv", "-o", "a.kb").out
    assert json.loads(timeplex("import", "a.csv", "-o", "a.kb", "--json").out)["notes"]
    Path("b.csv").write_text("subject,relation,object,date\na,r,b,3. März 1821\n")
    assert timeplex("import", "b.csv", "-o", "b.kb", "--date-language", "de").code == 0
    assert rows("b.kb")[0][3] == "1821-03-03"
    wrong = timeplex("import", "b.csv", "-o", "b.kb", "--date-format", "%d/%m").complaint()
    assert wrong.startswith("The date format '%d/%m' does not say the year once.")


def test_a_placeholder_in_a_third_of_the_ends_is_told(timeplex: Timeplex) -> None:
    ends = ["9999-12-31" if row % 3 == 0 else f"2015-03-{row % 28 + 1:02}" for row in range(60)]
    lines = [f"a{row},r,b,{1990 + row % 20}-05-17,{end}" for row, end in enumerate(ends)]
    Path("a.csv").write_text("subject,relation,object,begin,end\n" + "\n".join(lines))
    answer = timeplex("import", "a.csv", "-o", "a.kb")
    assert answer.out.startswith("Note: 20 ends of 60 are 9999-12-31, which stands for no date: they were set open")
    assert [row[4] for row in rows("a.kb")].count(None) == 20
    kept = timeplex("import", "a.csv", "-o", "a.kb", "--keep-placeholders")
    assert "placeholder" not in kept.out
    assert [row[4] for row in rows("a.kb")].count("9999-12-31") == 20


def test_what_is_not_used_and_what_may_be_one_is_said(timeplex: Timeplex) -> None:
    header = "Player,club,Position,start_date,Left,note,note,confidence\n"
    Path("a.csv").write_text(header + "Zoe,Ajax,keeper,1990,1991,x,y,1\nZOE,Porto,keeper,1992,1993,,,\n")
    out = timeplex("import", "a.csv", "-o", "a.kb").out
    assert "\nColumns not used: note, confidence.\n" in out
    assert "\nTwo columns are called note: the first was read.\n" in out
    remark = "1 group of names differs by case, spaces or accents alone: 'ZOE' / 'Zoe'. --merge-names makes them one."
    assert f"\n{remark}\n" in out
    assert rows("a.kb") == [("Zoe", "keeper", "Ajax", "1990", "1991"), ("ZOE", "keeper", "Porto", "1992", "1993")]
    merged = timeplex("import", "a.csv", "-o", "a.kb", "--merge-names").out
    assert " other spelling      1   repaired" in merged
    assert "of names" not in merged
    assert [row[0] for row in rows("a.kb")] == ["ZOE", "ZOE"]  # of two that are as common the first


def test_options_are_named_on_the_command_line_and_arguments_in_python(timeplex: Timeplex) -> None:
    Path("a.csv").write_text("player,club,joined\nAna,Ajax,1998\n")
    complaint = timeplex("import", "a.csv", "-o", "a.kb").complaint()
    assert complaint == (
        "a.csv has no column for the relation. Its columns are: player, club, joined. Say which it is: "
        "--relation COLUMN; for a table of one relation, --relation =NAME."
    )
    with pytest.raises(InputError, match='relation="COLUMN"; for a table of one relation, relation="=NAME"'):
        read("a.csv")
    assert timeplex("import", "a.csv", "-o", "a.kb", "--relation", "=playsFor").code == 0
    assert rows("a.kb") == [("Ana", "playsFor", "Ajax", "1998", "1998")]


def test_standard_input_and_format(installed: Timeplex) -> None:
    Path("facts.dat").write_text("subject;relation;object;begin\na;r;b;1990\n")
    assert installed("import", "facts.dat", "-o", "a.kb", "--format", "csv").code == 0
    code = [sys.executable, "-m", "timeplex.cli.main", "import", "-", "-o", "b.kb"]
    with Path("facts.dat").open() as stream:
        done = subprocess.run(code, stdin=stream, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert rows("b.kb") == rows("a.kb") == [("a", "r", "b", "1990", "1990")]


def test_a_sheet_can_be_named(timeplex: Timeplex) -> None:
    Path("a.xlsx").write_bytes(sheet(".xlsx", [["s", "r", "o", "begin"], ["a", "r", "b", 1990]], "Facts"))
    assert timeplex("import", "a.xlsx", "-o", "a.kb", "--sheet", "Facts").code == 0
    assert rows("a.kb") == [("a", "r", "b", "1990", "1990")]
    complaint = timeplex("import", "a.xlsx", "-o", "a.kb", "--sheet", "facts").complaint()
    assert complaint == "a.xlsx has no sheet 'facts'. Its sheets are: Facts."
    Path("a.csv").write_text("s,r,o\na,b,c\n")
    assert (
        timeplex("import", "a.csv", "-o", "a.kb", "--sheet", "x").complaint().startswith("a.csv is not a spreadsheet.")
    )
