"""What was learned is kept, and nothing else than what was learned comes back."""

import hashlib
import json
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save
from tests.builders import small_kb

import timeplex
from timeplex import Learned, TemporalKB
from timeplex.answers.dates import Dates
from timeplex.answers.kept import checksum, digest
from timeplex.answers.links import Links

NAMES = ("dates", "links")


@pytest.fixture(scope="module")
def kb() -> TemporalKB:
    return small_kb(300)


@pytest.fixture(scope="module")
def folder(kb: TemporalKB, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A KB folder that was asked before."""
    place = tmp_path_factory.mktemp("kept") / "small.kb"
    kb.save(place)
    asked = timeplex.learn(place)
    assert (asked.dates.cases, asked.links.cases) == (len(kb.valid[kb.valid.closed]), len(kb.valid))
    return place


def ask(learned: Learned) -> list[Any]:
    kb = learned.kb
    s, r, o, *_ = next(iter(kb.test))
    triple = kb.entities[s], kb.relations[r], kb.entities[o]
    return [learned.when(*triple).rows(), learned.rank(subject=triple[0], relation=triple[1]).rows()]


def restored(learned: Learned, name: str) -> Dates | Links | None:
    if name == "dates":
        return Dates.restored(learned.kb, learned.keeper)
    return Links.restored(learned.kb, dates(), learned.timeline.first, learned.timeline.last, None, learned.keeper)


@lru_cache
def dates() -> Dates:
    """Those of the KB, which are kept nowhere."""
    return Dates.learn(small_kb(300))


def test_what_was_learned_comes_back(folder: Path, kb: TemporalKB, monkeypatch: pytest.MonkeyPatch) -> None:
    before = ask(timeplex.learn(kb))

    def learn(*given: Any) -> None:
        raise AssertionError("it is learned again")

    monkeypatch.setattr(Dates, "learn", learn)
    monkeypatch.setattr(Links, "learn", learn)
    again = timeplex.learn(folder)
    assert ask(again) == before
    assert again.note("when") == timeplex.learn(folder).note("when")
    with pytest.raises(AssertionError, match="learned again"):
        ask(timeplex.learn(kb))


def test_a_kb_folder_with_it_is_a_kb_folder(folder: Path, kb: TemporalKB) -> None:
    assert timeplex.read(folder) == kb
    assert sorted(path.name for path in folder.iterdir() if path.stem in NAMES) == [
        f"{name}.{suffix}" for name in NAMES for suffix in ("json", "safetensors")
    ]


def test_other_facts_or_names_are_another_kb(folder: Path, kb: TemporalKB) -> None:
    fewer = replace(kb, splits={**kb.splits, "test": kb.test[1:]})
    moved = replace(kb, splits={**kb.splits, "test": kb.test[:1], "valid": kb.valid + kb.test[1:]})
    later = replace(kb, splits={**kb.splits, "test": replace(kb.test, end=kb.test.end + 1)})
    assert len({digest(each) for each in (kb, fewer, moved, later)}) == 4
    assert digest(kb, b"run") != digest(kb)
    for other in (fewer, moved, later):
        assert all(restored(timeplex.learn(other, folder=folder), name) is None for name in NAMES)
    assert all(restored(timeplex.learn(kb, folder=folder), name) is not None for name in NAMES)


def rewritten(folder: Path, place: Path, name: str, change: Any, arrays: Any) -> Learned:
    """The KB with a copy of what is kept under a name, changed, with checksums that hold again."""
    place.mkdir()
    said = json.loads((folder / f"{name}.json").read_text())
    numbers = load((folder / f"{name}.safetensors").read_bytes())
    change(said["learned"])
    arrays(numbers)
    content = save(numbers)
    said |= {"numbers": hashlib.sha256(content).hexdigest(), "sha256": checksum(said["learned"])}
    (place / f"{name}.json").write_text(json.dumps(said))
    (place / f"{name}.safetensors").write_bytes(content)
    return timeplex.learn(timeplex.read(folder), folder=place)


def same(_: Any) -> None:
    pass


def put(key: str, value: Any) -> Any:
    return lambda values: values.__setitem__(key, value)


STATES = {
    "dates": [
        put("level", 1.5),
        put("cases", -1),
        put("begin", ["gap"]),
        put("overlaps", {"kind": "platt", "slope": -1.0}),
        put("overlaps", {"kind": "by-relation", "rates": [0.0]}),
        put("more", 1),
        lambda values: values.pop("end"),
    ],
    "links": [
        put("features", ["popular"]),
        put("probabilities", {"rates": [0.0]}),
        put("cases", "many"),
        put("held_probabilities", {"rates": [0.0]}),
    ],
}


@pytest.mark.parametrize("name", NAMES)
def test_hostile_files_with_validchecksums_are_passed_over(folder: Path, tmp_path: Path, name: str) -> None:
    first = "begin_shared" if name == "dates" else "shared"
    numbers = [
        lambda arrays: arrays[first].__setitem__(0, np.nan),
        lambda arrays: arrays[first].__setitem__(0, 1e30),
        lambda arrays: arrays.__setitem__(first, arrays[first][1:]),
        lambda arrays: arrays.__setitem__(first, arrays[first].astype(np.float32)),
        lambda arrays: arrays.__setitem__("more", np.zeros(3)),
        lambda arrays: arrays.pop(first),
    ]
    if name == "dates":
        numbers.append(lambda arrays: arrays["end_scale"].__setitem__(0, 0.0))
    assert restored(rewritten(folder, tmp_path / "same", name, same, same), name) is not None
    for number, change in enumerate(STATES[name]):
        assert restored(rewritten(folder, tmp_path / f"s{number}", name, change, same), name) is None, number
    for number, change in enumerate(numbers):
        assert restored(rewritten(folder, tmp_path / f"n{number}", name, same, change), name) is None, number


@pytest.mark.parametrize("name", NAMES)
def test_damage_is_noticed(folder: Path, tmp_path: Path, name: str) -> None:
    for number, suffix in enumerate(("json", "safetensors")):
        learned = rewritten(folder, tmp_path / f"{number}", name, same, same)
        file = tmp_path / f"{number}" / f"{name}.{suffix}"
        content = file.read_bytes()
        file.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
        assert restored(learned, name) is None
        file.write_bytes(content[:-20])
        assert restored(learned, name) is None
        file.unlink()
        file.symlink_to(folder / file.name)
        assert restored(learned, name) is None


def test_a_folder_that_cannot_be_written_keeps_nothing(kb: TemporalKB, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for nowhere in (tmp_path / "file", Path("/proc/nowhere")):
        learned = timeplex.learn(kb, folder=nowhere)
        timeplex.learn(folder).dates.keep(learned.keeper)
        assert restored(learned, "dates") is None
    assert (tmp_path / "file").read_text() == ""
