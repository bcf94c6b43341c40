"""Questions and places of anyone's making: an answer or one sentence, never a fault of ours."""

import os
from pathlib import Path

import pytest
from tests.answers.small_runs import folder, trained
from tests.cli.conftest import Timeplex

LONG = "x" * 10**5
NAMES = ("", " ", "\udcff", "\x1b[31m", "[bold]", "\u202e", LONG, "=1+1", "\n", "\U000e0041")
TIMES = (
    "",
    "x",
    "...",
    "2003..2000",
    "nan",
    "inf",
    "1e400",
    "9" * 20,
    "-" * 10**5,
    "2000-13-45",
    "\udcff",
    "2000..\udcff",
)
DEVICES = ("", "x", "cuda:99", "cpu:-1", "meta", "\udcff", LONG, "privateuseone", "cpu:99999999999999999999")


@pytest.fixture
def fact() -> tuple[str, str, str, str]:
    kb = trained().kb
    s, r, o, begin, _ = next(iter(kb.train[:1]))
    return kb.entities[s], kb.relations[r], kb.entities[o], str(begin)


def refused(timeplex: Timeplex, *arguments: str | Path) -> None:
    answer = timeplex(*arguments)
    assert (answer.code, answer.out) == (2, ""), (arguments, answer)
    assert "Traceback" not in answer.err
    assert len(answer.err) < 5000


def test_names(timeplex: Timeplex, fact: tuple[str, str, str, str]) -> None:
    s, r, o, begin = fact
    run = folder("gadgets")
    for name in NAMES:
        refused(timeplex, "rank", run, "--subject", name, "--relation", r, "--at", begin)
        refused(timeplex, "rank", run, "--object", o, "--relation", name, "--at", begin)
        refused(timeplex, "when", run, "--", s, r, name)
        refused(timeplex, "explain", run, "--at", begin, "--", name, r, o)
        refused(timeplex, "evaluate", run, "--by", name)
        refused(timeplex, "evaluate", run, "--split", name)


def test_times(timeplex: Timeplex, fact: tuple[str, str, str, str]) -> None:
    s, r, o, _ = fact
    for at in TIMES:
        refused(timeplex, "rank", folder("gadgets"), "--subject", s, "--relation", r, "--at", at)
        refused(timeplex, "explain", folder("gadgets"), s, r, o, "--at", at)


def test_numbers(timeplex: Timeplex, fact: tuple[str, str, str, str]) -> None:
    s, r, _, begin = fact
    run = folder("gadgets")
    question = ("rank", run, "--subject", s, "--relation", r, "--at", begin, "-k")
    for k in ("0", "-1", "nan", "1.5", ""):
        refused(timeplex, *question, k)
    for k in (10**12, 10**30):
        assert timeplex(*question, str(k)).code == 0
    Path("holes.csv").write_text(f"subject,relation,object,begin,end\n{s},{r},,{begin},{begin}\n")
    for share in ("nan", "inf", "-1", "2", "x"):
        refused(timeplex, "fill", run, "holes.csv", "-o", "out.csv", "--min-prob", share)
        refused(timeplex, "discover", run, "-o", "out.csv", "--min-prob", share)
    assert timeplex("discover", run, "-o", "out.csv", "--relation", r, "--show", str(10**30)).code == 0


def test_devices(timeplex: Timeplex, fact: tuple[str, str, str, str]) -> None:
    s, r, _, begin = fact
    for device in DEVICES:
        refused(timeplex, "rank", folder("gadgets"), "--subject", s, "--relation", r, "--at", begin, "--device", device)


@pytest.mark.parametrize(
    "kind", ["folder", "pipe", "below a file", "too long", "far too long", "device", "empty", "dash"]
)
def test_places(timeplex: Timeplex, fact: tuple[str, str, str, str], kind: str) -> None:
    s, r, o, begin = fact
    run = folder("gadgets")
    Path("holes.csv").write_text(f"subject,relation,object,begin,end\n{s},{r},,{begin},{begin}\n")
    verbs: list[tuple[str, tuple[str | Path, ...]]] = [
        (".csv", ("fill", run, "holes.csv", "-o")),
        (".csv", ("discover", run, "-o")),
        (".csv", ("audit", "sample", "-o")),
        (".html", ("audit", "sample", "--html")),
        (".csv", ("problems", "sample", "-o")),
        (".png", ("when", run, s, r, o, "--plot")),
        (".png", ("diagnose", run, "--distances")),
        (".parquet", ("evaluate", run, "--per-query")),
    ]
    for number, (suffix, call) in enumerate(verbs):
        place = Path(f"{number}{suffix}")
        if kind == "folder":
            place.mkdir()
        elif kind == "pipe":
            os.mkfifo(place)
        special = {
            "below a file": f"holes.csv/x{suffix}",
            "too long": "x" * 300 + suffix,
            "far too long": "/" + "y/" * 3000 + f"z{suffix}",
            "device": "/dev/full",
            "empty": "",
            "dash": "-",
        }
        refused(timeplex, *call, special.get(kind, str(place)))
        assert kind != "pipe" or place.is_fifo(), "it is left alone"
