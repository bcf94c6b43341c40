"""Several processes at once, signals, and streams that nobody reads."""

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest
from tests.durability.conftest import FAST, fresh
from tests.durability.disk import tree_of
from tests.durability.server import Server, report
from tests.durability.test_crash import contents
from tests.patience import patience

from timeplex.files import is_temporary

KILLS = int(os.environ.get("TIMEPLEX_KILLS", "10"))
WORKS = ("--relation", "worksFor", "--at", "1940")
LONG = ("train", "some.kb", "-o", "long", *FAST, "--set", "epochs=60", "--set", "batch_size=8", "--set", "patience=60")
RESUME = ("train", "--resume", "--no-patterns", "-o", "long")


def wait_for(*paths: Path) -> None:
    until = time.monotonic() + patience(60)
    while not all(path.exists() for path in paths):
        assert time.monotonic() < until, f"{paths} did not appear"
        time.sleep(0.005)


def no_leftovers(place: Path, world: Path) -> None:
    for path in set(tree_of(place)) - set(tree_of(world)):
        assert not any(is_temporary(part) for part in Path(path).parts), path


@pytest.fixture
def other(place: Path) -> Path:
    """For a second process at the same place: only its reports lie elsewhere."""
    link = place.with_name("other")
    link.symlink_to(place)
    return link


# Two at once


def test_a_run_is_trained_by_one_process(server: Server, place: Path, other: Path, world: Path) -> None:
    first = server.start(place, *LONG)
    wait_for(place / "long" / "trace.jsonl")
    before = (place / "long" / "recipe.json").read_bytes()
    assert server.run(other, *RESUME) == 2
    assert report(other)["err"] == (
        "error: long is in use by another process. Wait until it has ended, or choose another.\n"
    )
    assert server.run(other, *LONG) == 2
    assert "error: long exists already." in report(other)["err"]
    assert (place / "long" / "recipe.json").read_bytes() == before
    os.kill(first, signal.SIGTERM)
    assert server.wait(first) == 143  # it was undisturbed until now
    assert "Go on with: timeplex train --resume -o long" in report(place)["out"]
    no_leftovers(place, world)


def test_a_lock_ends_with_its_process(server: Server, place: Path) -> None:
    first = server.start(place, *LONG)
    wait_for(place / "long" / "trace.jsonl")
    os.kill(first, signal.SIGKILL)
    assert server.wait(first) == -signal.SIGKILL
    (place / "long" / "recipe.json").write_text(
        json.dumps({**json.loads((place / "long" / "recipe.json").read_text()), "epochs": 1})
    )
    assert server.run(place, *RESUME) == 0, report(place)["err"]


def test_a_search_is_done_by_one_process(server: Server, place: Path, other: Path) -> None:
    tune = ("tune", "some.kb", "-o", "search", "--model", "complex", "--trials", "500", "--set", "options.dimension=4")
    first = server.start(place, *tune)
    wait_for(place / "search" / "trials-all.jsonl")
    assert server.run(other, *tune) == 2
    assert "error: search is in use by another process." in report(other)["err"]
    os.kill(first, signal.SIGINT)
    assert server.wait(first) == 130
    assert report(place)["out"].endswith("Stopped. The same command goes on.\n")


def test_two_who_start_at_once_are_one_who_trains(server: Server, place: Path, other: Path) -> None:
    train = ("train", "some.kb", "-o", "new", *FAST)
    processes = [server.start(where, *train) for where in (place, other)]
    codes = [server.wait(process) for process in processes]
    assert sorted(codes) == [0, 2], report(place)["err"] + report(other)["err"]
    assert server.run(place, "evaluate", "new") == 0


@pytest.mark.parametrize(
    ("one", "two", "output"),
    [
        (("import", "facts.csv", "-o", "old.kb"), ("import", "older.csv", "-o", "old.kb"), "old.kb"),
        (("import", "facts.csv", "-o", "new.kb"), ("split", "old.kb", "-o", "new.kb"), "new.kb"),
        (("audit", "whole.kb", "-o", "out.csv"), ("audit", "old.kb", "-o", "out.csv"), "out.csv"),
        (("fill", "run", "holes.csv", "-o", "out.csv"), ("fill", "run", "facts.csv", "-o", "out.csv"), "out.csv"),
        (("rank", "run", "--subject", "p1", *WORKS), ("rank", "run", "--object", "q1", *WORKS), "run"),
    ],
)
def test_of_two_who_write_the_same_one_is_there_whole(
    server: Server,
    world: Path,
    place: Path,
    other: Path,
    one: tuple[str, ...],
    two: tuple[str, ...],
    output: str,
) -> None:
    expected = []
    for command in (one, two):
        assert server.run(fresh(world, place), *command) == 0, report(place)["err"]
        expected.append(contents(place, output))
    for _ in range(3):
        fresh(world, place)
        processes = [server.start(where, *command) for where, command in ((place, one), (other, two))]
        assert [server.wait(process) for process in processes] == [0, 0], report(place)["err"] + report(other)["err"]
        assert contents(place, output) in expected
        no_leftovers(place, world)


# Signals


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_saves_and_says_how_to_go_on(server: Server, place: Path, world: Path, number: str, code: int) -> None:
    process = server.start(place, *LONG)
    wait_for(place / "long" / "trace.jsonl")
    os.kill(process, getattr(signal, number))
    assert server.wait(process) == code
    found = report(place)
    assert found["out"].endswith("Go on with: timeplex train --resume -o long\n")
    assert "Traceback" not in found["err"]
    assert json.loads((place / "long" / "checkpoint" / "latest.json").read_text())["state"]["step"] > 0
    no_leftovers(place, world)


@pytest.mark.parametrize("number", ["SIGTERM", "SIGHUP"])
def test_any_verb_leaves_cleanly(server: Server, world: Path, place: Path, number: str) -> None:
    """Wherever the signal comes: no traceback, nothing half written, nothing left over."""
    chance = random.Random(0)
    for _ in range(5):
        process = server.start(fresh(world, place), "import", "facts.csv", "-o", "old.kb")
        time.sleep(0.15 * chance.random())
        os.kill(process, getattr(signal, number))
        assert server.wait(process) in (0, 128 + getattr(signal, number), -getattr(signal, number))
        assert "Traceback" not in report(place)["err"]
        assert "fault of ours" not in report(place)["err"]
        old, new = contents(world, "old.kb"), contents(world, "whole.kb")
        assert list(contents(place, "old.kb").values()) in (list(old.values()), list(new.values()))


@pytest.mark.slow
def test_killed_at_any_moment_and_resumed_equals_straight(server: Server, world: Path, place: Path) -> None:
    """SIGKILLs at random moments; in the end the run is equal to one never killed. TIMEPLEX_KILLS=200 by hand."""
    assert server.run(place, *LONG) == 0
    straight = contents(place, "long")
    fresh(world, place)
    chance, kills = random.Random(KILLS), 0
    while kills < KILLS:
        begun = (place / "long" / "kb" / "MANIFEST.json").exists()
        command = RESUME if begun else LONG
        process = server.start(place, *command, checkpoint_seconds=0)
        time.sleep(0.1 + 0.6 * chance.random())
        os.kill(process, signal.SIGKILL)
        code = server.wait(process)
        assert code in (-signal.SIGKILL, 0), report(place)["err"]
        kills += code != 0
        if code == 0:
            assert contents(place, "long") == straight
            fresh(world, place)
    if not (place / "long" / "MANIFEST.json").exists():
        assert server.run(place, *(RESUME if (place / "long/kb").exists() else LONG)) == 0
    assert server.run(place, *RESUME) == 2  # it is finished
    assert contents(place, "long") == straight
    no_leftovers(place, world)


# Streams that nobody reads


WRITING = {
    "import": (("import", "facts.csv", "-o", "new.kb"), "new.kb"),
    "split": (("split", "whole.kb", "-o", "new.kb"), "new.kb"),
    "audit": (("audit", "whole.kb", "-o", "new.csv"), "new.csv"),
    "apply": (("apply", "whole.kb", "decisions.csv", "-o", "new.kb"), "new.kb"),
    "problems": (("problems", "whole.kb", "-o", "new.csv"), "new.csv"),
    "train": (("train", "some.kb", "-o", "new", *FAST), "new"),
    "tune": (("tune", "some.kb", "-o", "new", "--model", "complex", "--trials", "2", "--set", "epochs=1"), "new"),
    "fill": (("fill", "run", "holes.csv", "-o", "new.csv"), "new.csv"),
    "discover": (("discover", "run", "-o", "new.csv", "--most", "3"), "new.csv"),
    "evaluate": (("evaluate", "run", "--per-query", "new.parquet"), "new.parquet"),
    "diagnose": (("diagnose", "run", "--distances", "new.svg"), "new.svg"),
    "when": (("when", "run", "p1", "worksFor", "q2", "--plot", "new.svg"), "new.svg"),
}


@pytest.mark.parametrize("verb", WRITING)
def test_work_that_writes_goes_on_when_nobody_reads(server: Server, world: Path, place: Path, verb: str) -> None:
    command, output = WRITING[verb]
    assert server.run(place, *command) == 0, report(place)["err"]
    expected = contents(place, output)
    assert expected
    for stdout, code in {"broken": 0, "closed": 0, "full": 2}.items():
        assert server.run(fresh(world, place), *command, stdout=stdout) == code, report(place)["err"]
        assert contents(place, output) == expected, stdout
        complaints = [line for line in report(place)["err"].splitlines() if line.startswith("error: ")]
        full = "error: Standard output cannot be written: No space left on device. All else is done."
        assert complaints == ([full] if code else [])


@pytest.mark.parametrize("stdout", ["broken", "closed"])
def test_who_only_prints_leaves_quietly(server: Server, place: Path, stdout: str) -> None:
    assert server.run(place, "stats", "whole.kb", stdout=stdout) == 0
    assert report(place)["err"] == ""
