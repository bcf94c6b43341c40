"""`timeplex datasets`."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Timeplex


def put_benchmark(name: str, data: Path) -> Path:
    """A folder that looks like a benchmark's; `datasets` does not read the files."""
    folder = data / name
    folder.mkdir(parents=True)
    for split in ("train", "valid", "test"):
        (folder / f"{split}.txt").touch()
    return folder


def test_lists_the_four_benchmarks(timeplex: Timeplex) -> None:
    answer = timeplex("datasets")
    assert (answer.code, answer.err) == (0, "")
    rows = {
        line.split()[0]: line.split()[1:] for line in answer.out.splitlines() if line[:5] in (" yago", " wiki", " icew")
    }
    assert rows["yago11k"] == ["10,623", "10", "16,408", "2,050", "2,051", "year", "no"]
    assert rows["icews05-15"] == ["10,488", "251", "368,962", "46,275", "46,092", "day", "no"]
    assert list(rows) == ["yago11k", "wikidata12k", "icews14", "icews05-15"]


def test_json(timeplex: Timeplex) -> None:
    answer = json.loads(timeplex("datasets", "--json").out)
    assert set(answer) == {"datasets"}
    assert [row["name"] for row in answer["datasets"]] == ["yago11k", "wikidata12k", "icews14", "icews05-15"]
    keys = {"name", "entities", "relations", "train", "valid", "test", "granularity", "folder"}
    assert all(set(row) == keys for row in answer["datasets"])
    assert all(row["folder"] is None for row in answer["datasets"])


@pytest.mark.parametrize("by_variable", [True, False])
def test_says_which_are_here(timeplex: Timeplex, monkeypatch: pytest.MonkeyPatch, by_variable: bool) -> None:
    folder = put_benchmark("icews14", Path("data"))
    (Path("data") / "yago11k").mkdir()  # without files it is not there
    if by_variable:
        monkeypatch.setenv("TIMEPLEX_DATA", "data")
    where = [] if by_variable else ["--data-dir", "data"]
    rows = json.loads(timeplex("datasets", "--json", *where).out)["datasets"]
    assert {row["name"]: row["folder"] for row in rows if row["folder"]} == {"icews14": str(folder)}
    shown = [line.split() for line in timeplex("datasets", *where).out.splitlines()]
    assert [line[0] for line in shown if line and line[-1] == "yes"] == ["icews14"]
