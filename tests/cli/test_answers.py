"""Every answer from every kind of KB, as a user gets it: the sample, a benchmark, a table of one's own."""

import csv
import json
from pathlib import Path

import polars as pl
import pytest
from tests.benchmark_data import need_data
from tests.cli.conftest import Timeplex

import timeplex as package

QUICK = ["--set", "epochs=2", "--set", "options.dimension=8", "--set", "phase2.epochs=1"]


def own_table() -> str:
    """A table of careers with columns of other names, written here."""
    kb = package.generate(500, seed=7)
    with Path("own.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["who", "does", "what", "since", "until"])
        for row in kb.to_polars().drop("split").iter_rows():
            writer.writerow(["" if value is None else value for value in row])
    return "own.csv"


@pytest.mark.parametrize("source", ["sample", pytest.param("yago11k", marks=pytest.mark.slow), "own.csv"])
def test_train_and_ask(timeplex: Timeplex, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kb, base = source, []
    if source == "yago11k":
        monkeypatch.setenv("TIMEPLEX_DATA", str(need_data(source)))
        base = ["--model", "timeplex-base"]  # the weights of gadgets would be tried on all dev facts
    if source == "own.csv":
        names = ["--subject", "who", "--relation", "does", "--object", "what", "--begin", "since", "--end", "until"]
        assert timeplex("import", own_table(), "-o", "own.kb", *names).code == 0
        kb = "own.kb"
    assert timeplex("audit", kb, "-o", "findings.csv", "--html", "findings.html").code == 0
    assert pl.read_csv("findings.csv").columns[:3] == ["rank", "suspicion", "severity"]
    assert "<html" in Path("findings.html").read_text()
    assert timeplex("train", kb, "-o", "run", *base, *QUICK).code == 0

    facts = package.TemporalKB.load("run/kb").to_polars().drop_nulls()
    s, r, o, begin, end = facts.row(0)[1:]
    ranked = json.loads(
        timeplex("rank", "run", "--subject", s, "--relation", r, "--at", begin, "-k", "5", "--json").out
    )
    assert [row["rank"] for row in ranked["answers"]] == [1, 2, 3, 4, 5]
    assert (
        "A probability is the share of such answers that were right"
        in timeplex("rank", "run", "--object", o, "--relation", r, "--at", f"{begin}..{end}").out
    )
    dated = timeplex("when", "run", s, r, o, "--explain", "--plot", "when.png")
    assert "stated  " in dated.out
    assert "a further time" in dated.out
    assert Path("when.png").read_bytes().startswith(b"\x89PNG")
    assert "score" in timeplex("explain", "run", s, r, o, "--at", begin).out
    holes = pl.DataFrame([(s, r, None, begin, end), (s, r, o, None, None)], facts.columns[1:], orient="row")
    holes.write_csv("holes.csv")
    assert "2 rows, 2 filled" in timeplex("fill", "run", "holes.csv", "-o", "filled.csv").out
    assert pl.read_csv("filled.csv").columns[:5] == holes.columns
    assert timeplex("discover", "run", "--relation", r, "--min-prob", "0", "-o", "missing.csv").code == 0
    missing = pl.read_csv("missing.csv", infer_schema=False)
    known = set(package.TemporalKB.load("run/kb").to_polars().select("subject", "relation", "object").rows())
    assert len(missing) > 0
    assert not known & set(missing.select("subject", "relation", "object").rows())
