"""`timeplex audit`."""

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from tests.auditing.planted import PLANTS, clean
from tests.cli.conftest import Timeplex, contents

from timeplex.auditing.base import RULES
from timeplex.auditing.findings import SCHEMA


@pytest.fixture
def lives() -> Path:
    """A file with three errors."""
    rows = clean()
    for rule in ("begin-after-end", "gap", "rhythm"):
        rows = PLANTS[rule](rows)[0]
    path = Path("lives.csv")
    frame = pl.DataFrame(rows, orient="row", schema=["subject", "relation", "object", "begin", "end"])
    frame.write_csv(path)
    return path


def test_shows_counts_and_the_most_suspicious_facts(timeplex: Timeplex, lives: Path) -> None:
    answer = timeplex("audit", lives)
    assert (answer.code, answer.err) == (0, "")
    assert " suspicious facts of 301 in " in answer.out.splitlines()[0]
    assert " begin-after-end " in answer.out
    assert "  1  0.99  person 007 worksFor firm 2 (1932)\n" in answer.out
    assert "rhythm: heldIn of games happens every 4 years, but 1941 is out of step. [24 of 25]\n" in answer.out
    assert "           → 1941 → 1940 or 1944?\n" in answer.out


def test_most_limits_what_is_shown(timeplex: Timeplex, lives: Path) -> None:
    answer = timeplex("audit", lives, "--most", "1")
    assert "  1  0.99" in answer.out
    assert "\n  2  " not in answer.out
    assert " more: see them with --most, -o FILE.csv or --html FILE.html\n" in answer.out
    assert "\n  1  " not in timeplex("audit", lives, "--most", "0").out


def test_a_small_kb_says_what_was_not_judged(timeplex: Timeplex, careers: Path) -> None:
    answer = timeplex("audit", careers)
    assert answer.out.startswith("1 suspicious fact of 21 in ")
    assert "Fewer than 20 dated facts, too few for a habit: educatedAt, headOf, memberOf.\n" in answer.out
    assert "begin-after-end: The source says that it begins 2014 and ends 2009.\n" in answer.out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a\tr\tb\t1990\t1991\n", "Fewer than 20 dated facts"),
        ("a\tr\tb\t####-##-##\t####-##-##\n", "No fact has a date"),
    ],
)
def test_hardly_any_fact(timeplex: Timeplex, text: str, words: str) -> None:
    Path("facts.txt").write_text(text)
    answer = timeplex("audit", "facts.txt", "--html", "page.html")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("0 suspicious facts of 1 in ")
    assert words in answer.out
    assert "Nothing was found.\n" in answer.out


def test_json(timeplex: Timeplex, lives: Path) -> None:
    found = json.loads(timeplex("audit", lives, "--json").out)
    assert set(found) == {"kb", "facts", "suspicious", "seconds", "rules", "resolved", "notes", "findings"}
    assert found["facts"] == 301
    assert sum(found["rules"].values()) == len(found["findings"])
    assert all(list(row) == SCHEMA.names() for row in found["findings"])


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz"])
def test_files_are_written(timeplex: Timeplex, lives: Path, suffix: str) -> None:
    path = Path(f"new/findings{suffix}")
    answer = timeplex("audit", lives, "-o", path, "--html", "new/page.html")
    assert (answer.code, answer.err) == (0, "")
    assert f" findings to {path}.\n" in answer.out
    assert "<h1>Audit of lives</h1>" in Path("new/page.html").read_text()
    again = timeplex("audit", lives, "--since", path)
    assert again.out.startswith("0 new suspicious facts of 301 in ")
    assert "0 earlier findings resolved\n" in again.out
    assert "Nothing else was found.\n" in again.out


def test_mute_may_be_given_several_times(timeplex: Timeplex, lives: Path) -> None:
    arguments = [part for rule in RULES if rule != "rhythm" for part in ("--mute", rule)]
    found = json.loads(timeplex("audit", lives, "--json", *arguments).out)
    assert found["rules"] == {"rhythm": 1}


def test_own_rules(timeplex: Timeplex, lives: Path) -> None:
    Path("my.toml").write_text('[[duration]]\nrelation = "marriedTo"\nat_most = 29\n')
    found = json.loads(timeplex("audit", lives, "--json", "--rules", "my.toml").out)
    assert found["rules"]["duration"] == 60


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-o", "odd.txt"], "odd.txt has no suffix that says how to write it."),
        (["--html", "page.csv"], "page.csv is not the name of a page."),
        (["--mute", "gaps"], "There is no rule 'gaps'. Did you mean 'gap'?"),
        (["--since", "no.csv"], "no.csv does not exist."),
        (["--since", "lives.csv"], "lives.csv is not a table of findings: it has no column 'rule'."),
        (["--rules", "no.toml"], "no.toml does not exist."),
        (["--rules", "lives.csv"], "lives.csv is not TOML"),
        (["-o", "lives.csv/odd.csv"], "lives.csv/odd.csv cannot be written"),
        (["-o", "odd.csv", "--html", "lives.csv/page.html"], "lives.csv/page.html cannot be written"),
    ],
)
def test_what_cannot_be_done(timeplex: Timeplex, lives: Path, arguments: list[str], words: str) -> None:
    before = contents(Path())
    assert timeplex("audit", lives, *arguments).complaint().startswith(words)
    assert contents(Path()) == before


def test_wrong_own_rules(timeplex: Timeplex, lives: Path) -> None:
    Path("my.toml").write_text('[[ordering]]\nfirst = "bornAt"\nsecond = "diedIn"\n')
    complaint = timeplex("audit", lives, "--rules", "my.toml").complaint()
    assert complaint == "my.toml: [[ordering]] first: lives has no relation 'bornAt'. Did you mean 'bornIn'?"


def test_a_folder_that_is_read_only(installed: Timeplex, lives: Path) -> None:
    folder = Path("locked")
    folder.mkdir()
    folder.chmod(0o500)
    try:
        answer = installed("audit", lives, "-o", folder / "findings.csv")
        if answer.code == 0:
            pytest.skip("this user may write anywhere")
        assert answer.complaint().startswith("locked/findings.csv cannot be written")
        assert list(folder.iterdir()) == []
    finally:
        folder.chmod(0o700)


def test_names_do_not_act_on_the_terminal(timeplex: Timeplex) -> None:
    Path("facts.txt").write_text("a\x1b[31m\tr\tb[bold]\t1990\t1980\n")
    out = timeplex("audit", "facts.txt").out
    assert "\x1b" not in out
    assert "a\\x1b[31m r b[bold] (1990)" in out


def test_an_audit_imports_no_torch(lives: Path) -> None:
    code = (
        "import sys\nsys.argv = ['timeplex', 'audit', 'lives.csv', '-o', 'f.csv', '--html', 'f.html']\n"
        "from timeplex.cli.main import run\n"
        "try:\n    run()\nexcept SystemExit:\n    pass\n"
        "print('torch' in sys.modules, 'matplotlib' in sys.modules, 'polars' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines()[-1] == "False False True"
