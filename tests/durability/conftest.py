"""A small world of files: tables, KBs, a finished run, one that was cut off, and outputs of earlier commands."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.durability.server import Server, report

EVERY = os.environ.get("TIMEPLEX_CRASH") == "all"
"""Try each step of each verb, not only a sample of those that take long."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All steps of a verb, or very many kills, take longer than any one test may."""
    if EVERY or "TIMEPLEX_KILLS" in os.environ:
        for item in items:
            item.add_marker(pytest.mark.timeout(0))


FAST = (
    *("--model", "timeplex", "--set", "epochs=2", "--set", "options.dimension=4", "--set", "batch_size=64"),
    *("--set", "phase2.epochs=1", "--set", "precision=float32", "--no-patterns"),
)

RECIPE = """
model = "complex"
epochs = 1
batch_size = 64
time_weight = 0.0
precision = "float32"
[options]
dimension = 4
"""

PEOPLE = [f"p{number}" for number in range(40)]
PLACES = [f"q{number}" for number in range(4)]


def table(shift: int) -> str:
    """Some facts as CSV, the last row with an unreadable date."""
    lines = ["subject,relation,object,begin,end"]
    for at, person in enumerate(PEOPLE):
        place, other = PLACES[at % 4], PLACES[(at + shift) % 4]
        lines.append(f"{person},bornIn,{place},{1900 + at},{1900 + at}")
        lines.append(f"{person},worksFor,{other},{1920 + at + shift},{1931 + at}")
        lines.append(f"{person},memberOf,{place},{1925 + at},")
    return "\n".join([*lines, "p1,worksFor,q1,soon,1950", ""])


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One for all tests."""
    started = Server()
    yield started
    started.close()


@pytest.fixture(scope="session")
def world(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a test takes a copy of."""
    folder = tmp_path_factory.mktemp("world") / "world"
    folder.mkdir()
    (folder / "facts.csv").write_text(table(1))
    (folder / "older.csv").write_text(table(2))
    (folder / "holes.csv").write_text("subject,relation,object,begin,end\np1,worksFor,,1940,1941\np2,bornIn,q2,,\n")
    (folder / "mine.txt").write_text("not to be touched")
    for name in ("out.csv", "out.html", "out.parquet", "out.svg", "best.json"):
        (folder / name).write_text("of an earlier command")
    for dataset in ("icews14",):
        recipes = folder / "recipes" / dataset
        recipes.mkdir(parents=True)
        (recipes / "complex.toml").write_text(RECIPE)
    for command in (
        ["import", "older.csv", "-o", "old.kb"],
        ["import", "facts.csv", "-o", "whole.kb"],
        ["split", "whole.kb", "-o", "some.kb", "--valid", "0.2", "--test", "0.2"],
        ["train", "some.kb", "-o", "run", *FAST],
    ):
        assert server.run(folder, *command) == 0, report(folder)["err"]
    decide(folder / "whole.kb", folder / "decisions.csv")
    # One that was cut off in the middle: killed where its second checkpoint is complete.
    assert server.run(folder, "train", "some.kb", "-o", "cut", *FAST, how="kill", at=60, checkpoint_seconds=0) == -9
    assert (folder / "cut" / "checkpoint" / "latest.json").is_file()
    return folder


def decide(kb: Path, file: Path) -> None:
    """Take three decisions on the facts of a KB."""
    from timeplex.decisions.applying import stated
    from timeplex.decisions.journal import Decision, Decisions
    from timeplex.kb.facts import TemporalKB

    loaded = TemporalKB.load(kb)
    first, second, third = (stated(loaded, row) for row in range(3))
    opened = Decisions(loaded, file)
    opened.add(Decision("finding", "accept", first, "remove"))
    opened.add(Decision("finding", "accept", second, "change", replace(second, end="2001")))
    opened.add(Decision("finding", "reject", third))
    opened.close()


@pytest.fixture
def place(world: Path, tmp_path: Path) -> Path:
    """A copy of the world."""
    return fresh(world, tmp_path / "place")


def fresh(world: Path, place: Path) -> Path:
    """The world as it was."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(world, place)
    return place


def spread(count: int, most: int) -> list[int]:
    """At most so many of the numbers from 1 to `count`, first and last among them; all if asked for."""
    if EVERY or count <= most:
        return list(range(1, count + 1))
    return sorted({1 + round(at * (count - 1) / (most - 1)) for at in range(most)})
