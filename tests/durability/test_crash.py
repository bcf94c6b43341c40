"""Stopped, failing or forgotten at any step, each verb that writes leaves the old output or the new one.

And the same command again, or --resume, ends as if nothing had happened, to the bit, with nothing left over.
TIMEPLEX_CRASH=all tries every step of every verb; else those that write by the same functions share them.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.durability.conftest import EVERY, FAST, fresh, spread
from tests.durability.disk import Disk, Tree, outcomes, tree_of, write_tree
from tests.durability.server import Server, report

from timeplex.files import is_temporary

MEASURED = ("seconds", "phase2_seconds", "left")
KEPT = ("calibration.json",)
"""Files that answering adds to a run."""


@dataclass(frozen=True)
class Verb:
    """A command; `whole` is what must at any time be as before or as after, `made` what it leaves in the end."""

    arguments: tuple[str, ...]
    whole: tuple[str, ...]
    made: tuple[str, ...] = ()
    again: Callable[[Path], tuple[str, ...]] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    most: int = 4  # so many of its steps are tried, unless all are

    def command(self, place: Path) -> tuple[str, ...]:
        """What to do after a failure."""
        return self.arguments if self.again is None else self.again(place)


def resumed(run: str, start: tuple[str, ...] = ()) -> Callable[[Path], tuple[str, ...]]:
    """The start again if it was not done, else --resume."""

    def again(place: Path) -> tuple[str, ...]:
        begun = (place / run / "recipe.json").exists() and (place / run / "kb" / "MANIFEST.json").exists()
        return ("train", "--resume", "--no-patterns", "-o", run) if begun else start

    return again


TRAIN = ("train", "some.kb", "-o", "new", *FAST)
TUNE = ("tune", "some.kb", "-o", "search", "--trials", "2", "--model", "complex", "--set", "epochs=1")
REPRODUCE = ("reproduce", "--table", "link", "--dataset", "icews14", "--model", "complex", "--recipes", "recipes")

VERBS = {
    "import": Verb(("import", "facts.csv", "-o", "deep/er/new.kb"), ("deep/er/new.kb",)),
    "import over an older KB": Verb(("import", "facts.csv", "-o", "old.kb"), ("old.kb",), most=100),
    "import without exchange": Verb(("import", "facts.csv", "-o", "old.kb"), ("old.kb",), options={"exchange": False}),
    "split": Verb(("split", "whole.kb", "-o", "old.kb"), ("old.kb",)),
    "audit": Verb(("audit", "whole.kb", "-o", "out.csv", "--html", "out.html"), ("out.csv", "out.html")),
    "apply": Verb(
        ("apply", "whole.kb", "decisions.csv", "-o", "old.kb", "--changes", "out.csv", "--quickstatements", "out.txt"),
        ("old.kb", "out.csv", "out.txt"),
    ),
    "problems": Verb(("problems", "whole.kb", "-o", "deep/out.csv.gz"), ("deep/out.csv.gz",)),
    "fill": Verb(("fill", "run", "holes.csv", "-o", "out.csv"), ("out.csv", "run/calibration.json")),
    "discover": Verb(("discover", "run", "-o", "out.parquet", "--most", "3"), ("out.parquet",), most=3),
    "when": Verb(("when", "run", "p1", "worksFor", "q2", "--plot", "out.svg"), ("out.svg",), most=3),
    "evaluate": Verb(("evaluate", "run", "--per-query", "out.parquet"), ("out.parquet",), most=3),
    "diagnose": Verb(("diagnose", "run", "--distances", "out.svg"), ("out.svg",), most=3),
    "tune": Verb((*TUNE, "--set", "options.dimension=4"), ("search/best.json",), ("search",)),
    "train": Verb(TRAIN, (), ("new",), resumed("new", TRAIN), {"checkpoint_seconds": 0}, 8),
    "train --resume": Verb(
        ("train", "--resume", "--no-patterns", "-o", "cut"), (), ("cut",), resumed("cut"), {"checkpoint_seconds": 0}, 6
    ),
    "reproduce": Verb(REPRODUCE, (), ("runs", "results"), options={"benchmark": "some.kb"}),
}


def contents(place: Path, *names: str) -> dict[str, Any]:
    """What is in files and folders, but for what was measured by a clock, and digests of that."""
    found = {}
    for path, data in tree_of(place).items():
        if data is not None and any(path == name or path.startswith(f"{name}/") for name in names):
            found[path] = plain(Path(path), data)
    return found


def plain(path: Path, data: bytes) -> Any:
    """The content of a file without the seconds that something took."""
    if path.name == "MANIFEST.json" and b"metrics.json" in data:
        return sorted(json.loads(data)["sha256"])
    if path.name == "metrics.json" or (path.parts[0] == "results" and path.suffix == ".json"):
        return timeless(json.loads(data))
    return [timeless(json.loads(line)) for line in data.splitlines()] if path.name == "trace.jsonl" else data


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: timeless(each) for key, each in value.items() if key not in MEASURED}
    return [timeless(each) for each in value] if isinstance(value, list) else value


@dataclass(frozen=True)
class Straight:
    """A verb undisturbed: what there was, what it did, what there is then."""

    before: Tree
    steps: list[Any]
    count: int
    old: dict[str, Any]
    new: dict[str, Any]
    made: dict[str, Any]


@pytest.fixture(scope="session")
def straight(server: Server, world: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Straight]:
    place = tmp_path_factory.mktemp("straight") / "place"

    @cache
    def run(name: str) -> Straight:
        verb = VERBS[name]
        fresh(world, place)
        before, old = tree_of(place), contents(place, *verb.whole)
        assert server.run(place, *verb.arguments, **verb.options) == 0, report(place)["err"]
        found = report(place)
        assert found["escaped"] == [], "all is written through timeplex.files"
        made = contents(place, *verb.whole, *verb.made)
        assert made
        steps = [rebased(step, place) for step in found["steps"]]
        return Straight(before, steps, found["count"], old, contents(place, *verb.whole), made)

    return run


def rebased(step: Any, place: Path) -> Any:
    """The step with its paths below /, so that it can be done again elsewhere."""
    return tuple(each.replace(str(place), "/place", 1) if isinstance(each, str) else each for each in step)


def check(server: Server, place: Path, name: str, straight: Straight, tried: str) -> None:
    """The law."""
    verb = VERBS[name]
    for whole in verb.whole:
        now, old, new = (
            {path: data for path, data in found.items() if path == whole or path.startswith(f"{whole}/")}
            for found in (contents(place, whole), straight.old, straight.new)
        )
        if not verb.options.get("exchange", True):
            now = now or (contents(place, f"{Path(whole).parent / f'.{whole}.timeplex-old'}") and old)
        assert now in (old, new), f"{tried}: {whole} is neither the old nor the new one"
    options = {key: value for key, value in verb.options.items() if key != "exchange"}
    code = server.run(place, *verb.command(place), **options)
    finished = code == 2 and "is finished. Nothing is left to do." in report(place)["err"]
    assert code == 0 or finished, f"{tried}: {report(place)['err']}"
    assert contents(place, *verb.whole, *verb.made) == straight.made, tried
    check_manifests(place, verb)
    for path, data in tree_of(place).items():
        if path not in straight.before:
            assert not any(is_temporary(part) for part in Path(path).parts), f"{tried}: {path} is left over"
        elif Path(path).name not in KEPT and not path.startswith(verb.whole + verb.made):
            assert data == straight.before[path], f"{tried}: {path} was changed"


def check_manifests(place: Path, verb: Verb) -> None:
    for name in (*verb.whole, *verb.made):
        for manifest in [*(place / name).rglob("MANIFEST.json")] if (place / name).is_dir() else []:
            sums = json.loads(manifest.read_text())["sha256"]
            assert sums == {file: hashlib.sha256((manifest.parent / file).read_bytes()).hexdigest() for file in sums}, (
                manifest
            )


Run = Callable[[str], Straight]


@pytest.mark.parametrize("name", VERBS)
def test_killed_before_each_step(server: Server, world: Path, tmp_path: Path, straight: Run, name: str) -> None:
    verb, undisturbed, place = VERBS[name], straight(name), tmp_path / "place"
    for at in spread(undisturbed.count, verb.most):
        fresh(world, place)
        assert server.run(place, *verb.arguments, how="kill", at=at, **verb.options) == -9
        check(server, place, name, undisturbed, f"killed before step {at}")


@pytest.mark.slow
@pytest.mark.parametrize("name", VERBS)
def test_the_power_fails_after_each_step(server: Server, tmp_path: Path, straight: Run, name: str) -> None:
    """What was not synced is lost: names, content, or both."""
    verb, undisturbed, place = VERBS[name], straight(name), tmp_path / "place"
    states = list(outcomes(undisturbed.before, Path("/place"), undisturbed.steps))
    for at in spread(len(states), min(verb.most, 6)):
        number, fate, tree = states[at - 1]
        write_tree(tree, place)
        check(server, place, name, undisturbed, f"power failed after step {number}, {fate}")


@pytest.mark.parametrize("name", VERBS)
def test_what_was_done_is_safe(straight: Run, tmp_path: Path, name: str) -> None:
    """When the command has ended, nothing that it made can be lost any more."""
    verb, undisturbed = VERBS[name], straight(name)
    disk = Disk(undisturbed.before, Path("/place"))
    for step in undisturbed.steps:
        disk.do(step)
    write_tree(disk.after("all lost"), tmp_path / "place")
    now = contents(tmp_path / "place", *verb.whole, *verb.made)
    checkpoints = {path for path in now if "/checkpoint/" in path}  # removing them was not synced, nor need it be
    assert {path: data for path, data in now.items() if path not in checkpoints} == undisturbed.made


@pytest.mark.slow
@pytest.mark.parametrize("how", ["full", "broken"])
@pytest.mark.parametrize("name", VERBS)
def test_each_step_fails(server: Server, world: Path, tmp_path: Path, straight: Run, name: str, how: str) -> None:
    """A full disk from this step on, or this one step broken: one sentence, exit code 2, nothing lost."""
    verb, undisturbed, place = VERBS[name], straight(name), tmp_path / "place"
    for at in spread(undisturbed.count, 2):
        fresh(world, place)
        code = server.run(place, *verb.arguments, how=how, at=at, **verb.options)
        found, tried = report(place), f"{how} at step {at}"
        assert "fault of ours" not in found["err"], f"{tried}: {found['err']}"
        assert "Traceback" not in found["err"]
        if code == 0:  # what failed was not needed: a file that is kept to be quick the next time, or tidying up
            assert contents(place, *verb.whole, *verb.made).items() <= undisturbed.made.items(), tried
        else:
            assert code == 2, tried
            sentence = found["err"].splitlines()[-1]
            assert sentence.startswith("error: "), tried
            assert "cannot be written: " in sentence, tried
        check(server, place, name, undisturbed, tried)


def test_a_sample_is_a_sample_unless_all_is_asked_for() -> None:
    assert spread(3, 5) == [1, 2, 3]
    assert spread(101, 3) == (list(range(1, 102)) if EVERY else [1, 51, 101])
