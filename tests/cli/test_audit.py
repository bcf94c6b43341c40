"""`timeplex audit`."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from tests.answers import towns
from tests.auditing.planted import PLANTS, clean
from tests.cli.conftest import Timeplex, contents
from tests.patience import patience

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
    assert re.search(r"^  1  0\.99  person 007 worksFor firm 2 \(1932\)  \(.+, line [\d,]+\)$", answer.out, re.M)
    assert "rhythm: heldIn of games happens every 4 years, but 1941 is out of step. [24 of 25]\n" in answer.out
    assert "           → 1941 → 1940 or 1944?\n" in answer.out


def test_most_limits_what_is_shown(timeplex: Timeplex, lives: Path) -> None:
    answer = timeplex("audit", lives, "--most", "1")
    assert "  1  0.99" in answer.out
    assert "\n  2  " not in answer.out
    assert " more: see them with --limit, -o FILE.csv or --html FILE.html\n" in answer.out
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
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=patience(120)
    )
    assert done.stdout.splitlines()[-1] == "False False True"


# With a model ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def town_kb() -> Path:
    """A KB with three wrong births, which were held back from the run."""
    towns.as_kb(towns.towns()).save(Path("towns.kb"))
    return Path("towns.kb")


@pytest.fixture(scope="module")
def run() -> Path:
    return towns.town_run().run.path


def test_what_a_model_finds_is_added(timeplex: Timeplex, town_kb: Path, run: Path) -> None:
    answer = timeplex("audit", town_kb, "--run", run, "--html", "page.html")
    assert (answer.code, answer.err) == (0, "")
    assert "The model judged 62 facts; left out: 478 learned by heart.\n" in answer.out
    assert " model " in answer.out
    assert "a trained model holds other answers for far likelier" in answer.out
    assert "a trained model holds other answers for far likelier" in Path("page.html").read_text()
    assert "           model: The model ranks " in answer.out
    found = json.loads(timeplex("audit", town_kb, "--run", run, "--json").out)
    wrong = {(f"person {person:03}", where) for person, where in towns.WRONG.items()}
    by_model = [row for row in found["findings"] if row["rule"] == "model"]
    assert {(row["subject"], row["object"]) for row in by_model[:3]} == wrong
    assert found["rules"]["model"] == len(by_model)
    assert all(row["support"].endswith(" of 62") for row in by_model)
    without = json.loads(timeplex("audit", town_kb, "--json").out)["findings"]
    key = ("rule", "subject", "relation", "object", "severity")
    assert [[row[name] for name in key] for row in without] == [
        [row[name] for name in key] for row in found["findings"] if row["rule"] != "model"
    ]


def test_several_runs_and_the_same_one_twice(timeplex: Timeplex, town_kb: Path, run: Path) -> None:
    once = json.loads(timeplex("audit", town_kb, "--json", "--run", run).out)
    shutil.copytree(run, "copy")
    for other in (run, Path("copy")):
        twice = json.loads(timeplex("audit", town_kb, "--json", "--run", run, "--run", other).out)
        assert {**twice, "seconds": 0} == {**once, "seconds": 0}


def test_a_model_can_be_muted(timeplex: Timeplex, town_kb: Path, run: Path) -> None:
    plain = json.loads(timeplex("audit", town_kb, "--json").out)
    for arguments in (["--run", run], []):
        muted = json.loads(timeplex("audit", town_kb, "--json", "--mute", "model", *arguments).out)
        assert {**muted, "seconds": 0} == {**plain, "seconds": 0}


def test_since_an_audit_with_a_model(timeplex: Timeplex, town_kb: Path, run: Path) -> None:
    timeplex("audit", town_kb, "--run", run, "-o", "with.csv")
    timeplex("audit", town_kb, "-o", "without.csv")
    again = json.loads(timeplex("audit", town_kb, "--run", run, "--since", "with.csv", "--json").out)
    assert (again["findings"], again["resolved"]) == ([], 0)
    unasked = json.loads(timeplex("audit", town_kb, "--since", "with.csv", "--json").out)
    assert (unasked["findings"], unasked["resolved"]) == ([], 0), "a model that is not asked has resolved nothing"
    new = json.loads(timeplex("audit", town_kb, "--run", run, "--since", "without.csv", "--json").out)
    assert set(new["rules"]) == {"model"}
    assert new["resolved"] == 0


def test_runs_that_cannot_be_used(timeplex: Timeplex, town_kb: Path, lives: Path, run: Path) -> None:
    before = contents(Path())
    written = ["-o", "findings.csv"]
    for wrong in ("no", lives):
        answer = timeplex("audit", town_kb, "--run", run, "--run", wrong, *written)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith(
            f"error: {wrong} has no trained model: it is not a run folder. Use: timeplex train"
        )
    complaint = timeplex("audit", lives, "--run", run, *written).complaint()
    assert complaint.startswith(f"{run} was trained on towns and knows the names of no fact of lives. Give a run ")
    assert contents(Path()) == before
