"""`timeplex problems`."""

import gzip
import json
from pathlib import Path

import polars as pl
import pytest
from tests.cli.conftest import Timeplex, contents

COLUMNS = ["file", "line", "kind", "action", "field", "reason", "row"]


def test_shows_each_problem_with_its_line(timeplex: Timeplex, careers: Path) -> None:
    answer = timeplex("problems", careers)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("24 rows read = 21 facts + 3 rows set aside\n")
    assert " 7      begin after end " in answer.out
    assert "more: see them" not in answer.out


def test_json_has_the_documented_keys(timeplex: Timeplex, careers: Path) -> None:
    found = json.loads(timeplex("problems", careers, "--json").out)
    assert set(found) == {"rows_read", "set_aside", "problems", "unlisted"}
    assert (found["rows_read"], found["set_aside"], len(found["problems"])) == (24, 3, 7)
    assert all(list(row) == COLUMNS for row in found["problems"])


def test_a_clean_source(timeplex: Timeplex) -> None:
    Path("facts.txt").write_text("a\tr\tb\t1990\t1991\n")
    answer = timeplex("problems", "facts.txt")
    assert answer.out == "1 row read = 1 fact + 0 rows set aside\nNo problem was found.\n"


def test_most_limits_what_is_shown_of_each_kind(timeplex: Timeplex) -> None:
    Path("facts.txt").write_text("".join(f"a\tr\tb{at}\t1990\t1980\n" for at in range(5)) + "a\tr\tb0\t19##\t1999\n")
    answer = timeplex("problems", "facts.txt", "--most", "2")
    assert [line.split()[0] for line in answer.out.splitlines() if " begins 1990 " in line] == ["1", "2"]
    assert "does not say the year" in answer.out
    assert "3 more: see them with --limit or -o FILE.csv" in answer.out
    counts_only = timeplex("problems", "facts.txt", "--most", "0")
    assert "begin after end" in counts_only.out
    assert " begins 1990 " not in counts_only.out


def test_several_files_are_told_apart(timeplex: Timeplex) -> None:
    for name in ("one", "two"):
        Path(f"{name}.txt").write_text("a\tr\tb\t1990\t1991\na\tr\tb\t1990\t1980\n")
    assert timeplex("import", "one.txt", "two.txt", "-o", "both.kb").code == 0
    answer = timeplex("problems", "both.kb")
    assert " one.txt:2 " in answer.out
    assert " two.txt:2 " in answer.out


def test_a_row_over_several_lines_is_one_line(timeplex: Timeplex) -> None:
    Path("facts.csv").write_text("subject,relation,object,begin\n" + "a,r,c,1990\n" * 9 + '"a\nb",r,c,nonsense\n')
    assert ' "a⏎b",r,c,nonsense ' in timeplex("problems", "facts.csv").out


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz"])
def test_all_are_written_to_a_file(timeplex: Timeplex, careers: Path, suffix: str) -> None:
    path = Path(f"new/odd{suffix}")
    answer = timeplex("problems", careers, "--most", "1", "-o", path)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.endswith(f"Wrote 7 problems to {path}.\n")
    data = gzip.decompress(path.read_bytes()) if suffix.endswith(".gz") else path.read_bytes()
    read = {".jsonl": pl.read_ndjson, ".parquet": pl.read_parquet}.get(suffix)
    frame = read(data) if read else pl.read_csv(data, separator="\t" if suffix == ".tsv" else ",")
    assert frame.columns == COLUMNS
    assert frame["line"].to_list() == [7, 9, 13, 14, 17, 20, 21]
    assert frame["row"][2] == '"Dupont, Elise",memberOf,Academy of Arts,1stJuly2012,,unreadable date'


@pytest.mark.parametrize("name", ["odd.txt", "odd.xlsx", "odd", "odd.gz"])
def test_a_suffix_that_cannot_be_written(timeplex: Timeplex, careers: Path, name: str) -> None:
    before = contents(Path())
    complaint = timeplex("problems", careers, "-o", name).complaint()
    assert complaint == f"{name} has no suffix that says how to write it. Use .csv, .tsv, .jsonl, .parquet."
    assert contents(Path()) == before


def test_a_place_that_cannot_be_written(timeplex: Timeplex, careers: Path) -> None:
    Path("file").touch()
    before = contents(Path())
    assert timeplex("problems", careers, "-o", "file/odd.jsonl").complaint().startswith("file/odd.jsonl cannot be")
    assert contents(Path()) == before
