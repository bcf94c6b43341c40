"""Names of anyone's making, from a table through training to every output: nothing in them acts."""

import csv
import json
import re
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp
from xml.etree import ElementTree

import polars as pl
import pytest
from tests.cli.conftest import Timeplex
from typer.testing import CliRunner

import timeplex as library
from timeplex.cli.main import app
from timeplex.kb.store import write_frame
from timeplex.text import ACTING

ODD = (
    '=HYPERLINK("http://x")',
    "+1+cmd|' /C calc'!A0",
    "-1+1",
    "@SUM(1)",
    " =1+1",
    "＝1+1",
    "x;=1+1",
    "[red]x[/red] [/]",
    "<script>alert(1)</script>&amp;",
    "--> <svg onload=x>",
    "$x^2$ \\frac{1}{2} $",
    "\x1b[31mred\x1b]0;title\x07",
    "\u202eright to left\u2066",
    "\u061c\u200e\u200f\u2060\ufff9\u180e\xad",
    "\U000e0041\U000e0042 tags",
    "日本 😀",
    "line\nbreak\ttab",
)
FORMULA = re.compile(r"\s*[=+@＝]|\s*-(?!\d+(\.\d+)?$|$)")


@lru_cache
def odd_run() -> Path:
    """A run on a KB in which every name is odd."""
    place = Path(mkdtemp(prefix="odd-run-"))
    rows = [
        {
            "subject": f"{a}{number}",
            "relation": f"{a}r",
            "object": b,
            "begin": str(1900 + number),
            "end": str(1905 + number),
        }
        for number in range(12)
        for a, b in zip(ODD, (*ODD[5:], *ODD[:5]), strict=True)
    ]
    # Marriages from both sides but for the last three, so that there is something to discover.
    for number in range(24):
        pair = (f"=a{number}", f"+b{number}")
        dates = {"begin": str(1900 + number), "end": str(1920 + number)}
        rows += [
            {"subject": one, "relation": "@marriedTo", "object": other, **dates}
            for one, other in (pair, pair[::-1])[: 1 if number > 20 else 2]
        ]
    # A few that are wrong, so that the audit has something to say.
    rows += [{**row, "begin": "1999", "end": "1900"} for row in rows[: len(ODD)]]
    kb = library.split_randomly(library.read(pl.DataFrame(rows)), valid=0.1, test=0.1, seed=0)
    kb.save(place / "odd.kb")
    fast = ["--model", "timeplex-base", "--set", "gadgets.pair={}", "--set", "epochs=1", "--set", "options.dimension=4"]
    answer = CliRunner().invoke(app, ["train", str(place / "odd.kb"), "-o", str(place / "run"), *fast])
    assert answer.exit_code == 0, answer.output
    return place / "run"


@pytest.fixture
def kb() -> library.TemporalKB:
    return library.load(odd_run(), device="cpu").kb


def harmless(text: str) -> None:
    """No character of a printed text acts, and the markup is still there to be seen."""
    assert not [found for found in ACTING.findall(text) if found != "\n"]


@pytest.mark.slow
def test_every_verb_prints_names_harmlessly(timeplex: Timeplex, kb: library.TemporalKB) -> None:
    run, folder = odd_run(), odd_run().parent / "odd.kb"
    calls: list[tuple[str | Path, ...]] = [
        ("stats", folder),
        ("problems", folder),
        ("audit", folder),
        ("evaluate", run, "--by", "relation"),
        ("compare", run, run, "--by-relation"),
        ("diagnose", run),
    ]
    for s, r, o, begin, _ in list(kb.train)[: len(ODD)]:
        names = kb.entities[s], kb.relations[r], kb.entities[o]
        calls += [
            (
                "rank",
                run,
                f"--subject={names[0]}",
                f"--relation={names[1]}",
                "--at",
                str(begin),
                "--explain",
                "-k",
                "3",
            ),
            ("explain", run, "--at", str(begin), "--", *names),
            ("when", run, "--explain", "--", *names),
        ]
    for call in calls:
        for more in ((), ("--json",)):
            answer = timeplex(call[0], *more, *call[1:])
            assert answer.code == 0, answer.err
            harmless(answer.out + answer.err)
            if more:
                json.loads(answer.out)
    assert "[red]x[/red] [/]" in timeplex("stats", folder).out


def test_every_table_is_free_of_formulas_unless_asked_for(timeplex: Timeplex, kb: library.TemporalKB) -> None:
    run, folder = odd_run(), odd_run().parent / "odd.kb"
    holes = kb.to_polars().head(40).with_columns(object=pl.lit(None, pl.String)).drop("split")
    write_frame(holes, Path("holes.csv"), formulas=True)
    Path("odd.csv").write_text(
        "subject,relation,object,begin\n" + "".join(f"{name},=r,+o,\n" for name in ("=a", "@b", "-c") for _ in range(2))
    )
    calls: list[tuple[str | Path, ...]] = [
        ("fill", run, "holes.csv"),
        ("discover", run, "--min-prob", "0", "--most", "40"),
        ("audit", folder),
        ("problems", "odd.csv"),
    ]
    for call in calls:
        for suffix in (".csv", ".tsv"):
            assert timeplex(*call, "-o", f"safe{suffix}").code == 0
            assert timeplex(*call, "-o", f"exact{suffix}", "--formulas").code == 0
            safe, exact = (_cells(Path(f"{name}{suffix}")) for name in ("safe", "exact"))
            assert [cell for cell in safe if FORMULA.match(cell)] == []
            assert [cell for cell in exact if FORMULA.match(cell)], "there was something to neutralise"
            assert len(safe) == len(exact)


def _cells(path: Path) -> list[str]:
    with path.open(newline="") as file:
        return [cell for row in csv.reader(file, delimiter="," if path.suffix == ".csv" else "\t") for cell in row]


def test_an_audit_recognises_its_own_neutralised_findings(timeplex: Timeplex) -> None:
    folder = odd_run().parent / "odd.kb"
    assert timeplex("audit", folder, "-o", "old.csv").code == 0
    assert _cells(Path("old.csv"))[16:], "there are findings"
    again = timeplex("audit", folder, "--since", "old.csv")
    assert "0 earlier findings resolved" in again.out
    assert "Nothing else was found." in again.out


@pytest.mark.slow
def test_the_page_and_the_pictures(timeplex: Timeplex, kb: library.TemporalKB) -> None:
    folder = odd_run().parent / "odd.kb"
    assert timeplex("audit", folder, "--html", "page.html").code == 0
    page = Path("page.html").read_text()
    harmless(page)
    assert "<script" not in page
    assert "<svg onload" not in page
    for s, r, o, _, _ in list(kb.train)[: len(ODD)]:
        names = kb.entities[s], kb.relations[r], kb.entities[o]
        answer = timeplex("when", odd_run(), "--plot", "when.svg", "--", *names)
        assert (answer.code, answer.err) == (0, "")
        picture = Path("when.svg").read_text()
        assert "<script" not in picture
        ElementTree.fromstring(picture)  # a comment with a name in it ends where it should
        assert "<svg onload" not in picture


def test_odd_file_names(timeplex: Timeplex) -> None:
    for name in ("new\nline.csv", "\u202e\U000e0041.csv", "[bold]\x1b[31m.csv", "=1.csv"):
        Path(name).write_text("subject,relation,object,begin\na,r,b,1990\n")
        for call in (("stats", name), ("import", name, "-o", f"{name}.kb"), ("audit", name, "-o", f"out {name}")):
            answer = timeplex(*call)
            assert answer.code == 0, answer.err
            harmless(answer.out + answer.err)
        harmless(timeplex("stats", f"absent {name}").complaint())
