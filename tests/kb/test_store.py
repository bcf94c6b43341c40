"""KB folders: what is saved comes back, what is damaged is refused, what is there is not lost."""

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kb.random_kbs import kb_of, kbs, problem
from tests.patience import patience

from timeplex import files, read
from timeplex.errors import DamagedError, InputError, TimeplexError
from timeplex.kb import store
from timeplex.kb.facts import TemporalKB
from timeplex.kb.names import Names
from timeplex.kb.problems import FACT, Action, Kind, Problems
from timeplex.kb.spans import OPEN_BEGIN, OPEN_END

FILES = ("MANIFEST.json", "entities.parquet", "facts.parquet", "kb.json", "problems.parquet", "relations.parquet")


def small_kb() -> TemporalKB:
    odd = problem(7, Kind.UNREADABLE_DATE, Action.KEPT, "end", "no date", "Zoë,r1,e1,1990,soon")
    splits = {"train": [(0, 1, 2, 1990, OPEN_END), (3, 1, 3, OPEN_BEGIN, 5)], "valid": [], "test": [(1, 0, 2, 3, 4)]}
    kb = kb_of(splits, problems=Problems(odd, 4))
    return TemporalKB(
        Names(kb.entities.names, {"e1": "Zoë"}), kb.relations, kb.granularity, kb.splits, kb.problems, "klein und schön"
    )


def other_kb() -> TemporalKB:
    return kb_of([(5, 5, 5, 5, 5)])


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    small_kb().save(tmp_path / "kb")
    return tmp_path / "kb"


def inside(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def assert_same(loaded: TemporalKB, kb: TemporalKB) -> None:
    """Alike in everything, not only in what `==` looks at."""
    assert loaded == kb
    assert loaded.name == kb.name
    assert [*loaded.splits] == [*kb.splits]
    assert [list(facts) for facts in loaded.splits.values()] == [list(facts) for facts in kb.splits.values()]
    assert (loaded.entities.labels, loaded.relations.labels) == (kb.entities.labels, kb.relations.labels)
    assert loaded.problems.rows_read == kb.problems.rows_read
    assert loaded.problems.frame.equals(kb.problems.frame)
    assert loaded.problems.frame.schema == kb.problems.frame.schema


# The round trip


@settings(max_examples=50)
@given(kb=kbs())
def test_what_is_saved_comes_back(kb: TemporalKB, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("round-trip") / "kb"
    kb.save(folder)
    assert_same(TemporalKB.load(folder), kb)
    shutil.rmtree(folder.parent)


def test_the_folder_has_what_the_docs_say(saved: Path) -> None:
    assert inside(saved) == sorted(FILES)
    sums = json.loads((saved / "MANIFEST.json").read_text())["sha256"]
    assert sums == {name: hashlib.sha256((saved / name).read_bytes()).hexdigest() for name in FILES[1:]}
    facts = pl.read_parquet(saved / "facts.parquet")
    assert facts["begin"].to_list() == [1990, None, 3]  # open ends are nulls for other programs
    assert facts["end"].to_list() == [None, 5, 4]
    assert saved.stat().st_mode & 0o777 == 0o755
    assert inside(saved.parent) == ["kb"]


def test_an_empty_kb_comes_back(tmp_path: Path) -> None:
    kb = kb_of([])
    kb.save(tmp_path / "kb")
    assert_same(TemporalKB.load(tmp_path / "kb"), kb)


def test_a_folder_without_the_newer_columns_of_problems_loads(tmp_path: Path) -> None:
    kb = read(pl.DataFrame({"subject": ["a"], "relation": ["r"], "object": ["b"], "begin": [9], "end": [5]}))
    assert kb.problems.frame.select(FACT).rows() == [(0, 0, 1, 9, 5)]
    earlier = replace(kb, problems=replace(kb.problems, frame=kb.problems.told))
    earlier.save(tmp_path / "kb")
    loaded = TemporalKB.load(tmp_path / "kb").problems
    assert loaded.told.equals(kb.problems.told)
    assert loaded.frame.select(FACT).rows() == [(None,) * 5]


@pytest.mark.parametrize(("column", "wrong"), [("s", 2), ("r", -1), ("end", 2**30)])
def test_a_problem_of_a_fact_that_cannot_be_is_refused(tmp_path: Path, column: str, wrong: int) -> None:
    kb = read(pl.DataFrame({"subject": ["a"], "relation": ["r"], "object": ["b"], "begin": [9], "end": [5]}))
    frame = kb.problems.frame.with_columns(pl.lit(wrong, pl.Int32).alias(column))
    replace(kb, problems=replace(kb.problems, frame=frame)).save(tmp_path / "kb")
    with pytest.raises(DamagedError, match=f"problems.parquet has a .* in {column} "):
        TemporalKB.load(tmp_path / "kb")


def test_the_encoding_does_not_depend_on_the_machine(saved: Path) -> None:
    code = "import sys; from timeplex import TemporalKB; kb = TemporalKB.load(sys.argv[1]); kb.save(sys.argv[1])"
    options = ["-X", "warn_default_encoding", "-W", "error::EncodingWarning:timeplex.kb.store"]
    subprocess.run([sys.executable, *options, "-c", code, str(saved)], check=True, timeout=patience(120))
    assert_same(TemporalKB.load(saved), small_kb())


# Damage


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("mask", [0x01, 0x20, 0x80])
def test_a_flipped_bit_is_refused_or_makes_no_difference(saved: Path, name: str, mask: int) -> None:
    kb, path = small_kb(), saved / name
    data = path.read_bytes()
    step = 1 if name == "MANIFEST.json" else 7
    for position in [*range(0, len(data), step), len(data) - 1]:
        changed = bytearray(data)
        changed[position] ^= mask
        path.write_bytes(changed)
        if name == "MANIFEST.json":  # the one file without a checksum: spaces in it may change
            try:
                loaded = TemporalKB.load(saved)
            except TimeplexError:
                continue
            assert_same(loaded, kb)
        else:
            with pytest.raises(DamagedError, match=f"{name} has been changed or damaged"):
                TemporalKB.load(saved)
    path.write_bytes(data)
    assert_same(TemporalKB.load(saved), kb)


@pytest.mark.parametrize("name", FILES)
def test_a_cut_file_is_refused(saved: Path, name: str) -> None:
    data = (saved / name).read_bytes()
    for length in (0, 1, len(data) // 2, len(data) - 1):
        (saved / name).write_bytes(data[:length])
        with pytest.raises(DamagedError):
            TemporalKB.load(saved)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(saved: Path, name: str) -> None:
    (saved / name).unlink()
    expected = "is not a KB folder" if name in ("MANIFEST.json", "kb.json") else f"{name} is missing"
    with pytest.raises(TimeplexError, match=expected):
        TemporalKB.load(saved)


@settings(max_examples=20)
@given(st.data())
def test_a_manifest_that_leaves_a_file_out_is_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("manifest") / "kb"
    small_kb().save(folder)
    manifest = json.loads((folder / "MANIFEST.json").read_text())
    del manifest["sha256"][data.draw(st.sampled_from(FILES[1:]))]
    (folder / "MANIFEST.json").write_text(json.dumps(manifest))
    with pytest.raises(DamagedError, match="does not list the checksums"):
        TemporalKB.load(folder)
    shutil.rmtree(folder.parent)


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "1", "{}", '{"format": 1}', '{"format": 1, "sha256": []}', "\ufffd"]
)
def test_a_manifest_of_another_kind_is_refused(saved: Path, text: str) -> None:
    (saved / "MANIFEST.json").write_text(text, encoding="utf-8")
    with pytest.raises(TimeplexError, match="Import the source again"):
        TemporalKB.load(saved)


def test_a_later_format_is_told_before_anything_is_checked(saved: Path) -> None:
    (saved / "MANIFEST.json").write_text(json.dumps({"format": 2, "blake3": {}}))
    with pytest.raises(InputError, match="has format 2, this version reads format 1") as caught:
        TemporalKB.load(saved)
    assert "Import the source again" in caught.value.hint


@pytest.mark.parametrize("place", ["nothing here", "folder", "file.csv"])
def test_what_is_no_kb_folder(tmp_path: Path, place: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file.csv").write_text("a,b,c")
    with pytest.raises(InputError, match="is not a KB folder") as caught:
        TemporalKB.load(tmp_path / place)
    assert "timeplex import" in caught.value.hint


@pytest.mark.parametrize("error", [PermissionError(errno.EACCES, "Permission denied"), OSError("Permission denied")])
def test_what_cannot_be_read_is_no_traceback(saved: Path, monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    def refuse(folder: Path, name: str) -> None:
        raise error

    monkeypatch.setattr(files, "open_inside", refuse)
    with pytest.raises(TimeplexError, match="cannot be read: Permission denied"):
        TemporalKB.load(saved)


# Replacing


def test_an_older_kb_is_replaced(saved: Path) -> None:
    other_kb().save(saved)
    assert_same(TemporalKB.load(saved), other_kb())
    assert inside(saved.parent) == ["kb"]


def full(*_: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def break_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first half of a file can be written."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda to, data: full() if len(data) < 200 else write(to, data[: len(data) // 2]))


def break_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", full)


def break_rename(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "rename", full)


BREAKS = [break_write, break_fsync, break_rename]


@pytest.mark.parametrize("breaking", BREAKS)
def test_a_failure_leaves_the_old_kb(saved: Path, monkeypatch: pytest.MonkeyPatch, breaking: Any) -> None:
    breaking(monkeypatch)
    with pytest.raises(InputError, match="cannot be written: No space left on device"):
        other_kb().save(saved)
    monkeypatch.undo()
    assert inside(saved.parent) == ["kb"]
    assert_same(TemporalKB.load(saved), small_kb())


@pytest.mark.parametrize("breaking", BREAKS)
def test_a_failure_leaves_nothing_half_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, breaking: Any) -> None:
    breaking(monkeypatch)
    with pytest.raises(InputError, match="No space left on device"):
        small_kb().save(tmp_path / "kb")
    assert inside(tmp_path) == []


def test_an_interruption_leaves_the_old_kb(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(names: Names) -> pl.DataFrame:
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "_names_frame", interrupt)
    with pytest.raises(KeyboardInterrupt):
        other_kb().save(saved)
    monkeypatch.undo()
    assert inside(saved.parent) == ["kb"]
    assert_same(TemporalKB.load(saved), small_kb())


def no_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system that cannot let two folders change names."""
    monkeypatch.setattr(files, "_exchange", lambda *_: False)


def test_where_folders_cannot_change_names_two_renames_do(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_exchange(monkeypatch)
    other_kb().save(saved)
    assert_same(TemporalKB.load(saved), other_kb())
    assert inside(saved.parent) == ["kb"]


def test_if_the_second_of_two_renames_fails_the_old_kb_is_back(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_exchange(monkeypatch)
    rename = os.rename

    def fail(one: Path, other: Path) -> None:
        full() if other == saved.resolve() and not one.name.endswith("-old") else rename(one, other)

    monkeypatch.setattr(files, "_put", files._put_in_two_steps)
    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(InputError, match="No space left on device"):
        other_kb().save(saved)
    monkeypatch.undo()
    assert inside(saved.parent) == ["kb"]
    assert_same(TemporalKB.load(saved), small_kb())


@pytest.mark.parametrize("use", ["load", "save", "read"])
def test_a_death_between_two_renames_is_recovered_from(saved: Path, monkeypatch: pytest.MonkeyPatch, use: str) -> None:
    saved.rename(saved.with_name(".kb.timeplex-old"))
    if use == "save":
        other_kb().save(saved)
        assert_same(TemporalKB.load(saved), other_kb())
    else:
        assert_same(TemporalKB.load(saved) if use == "load" else read(saved), small_kb())
    assert inside(saved.parent) == ["kb"]


def test_what_a_dead_process_left_is_swept_and_what_a_living_one_writes_is_not(saved: Path) -> None:
    dead, alive, file = (saved.with_name(f".kb.timeplex-{number:08x}") for number in range(3))
    for folder in (dead, alive):
        folder.mkdir()
        (folder / "facts.parquet").write_bytes(b"half")
    file.write_bytes(b"half")
    others = [".kb.timeplex-mine", ".other.timeplex-00000000", ".kb-abc"]
    for name in others:
        saved.with_name(name).write_text("not of this KB")
    with files.locked(alive):
        other_kb().save(saved)
    assert inside(saved.parent) == sorted([alive.name, "kb", *others])
    other_kb().save(saved)
    assert inside(saved.parent) == sorted(["kb", *others])


def test_files_that_are_not_of_the_kb_are_not_lost_with_it(saved: Path) -> None:
    (saved / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"also holds 'notes.txt'"):
        other_kb().save(saved)
    assert (saved / "notes.txt").read_text() == "mine"
    assert_same(TemporalKB.load(saved), small_kb())


def test_a_link_stays_and_what_it_leads_to_is_replaced(saved: Path) -> None:
    link = saved.with_name("link")
    link.symlink_to(saved)
    other_kb().save(link)
    assert link.is_symlink()
    assert_same(TemporalKB.load(saved), other_kb())
    assert inside(saved.parent) == ["kb", "link"]


# Places that are refused


def test_foreign_things_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("precious")
    (tmp_path / "file").write_text("precious")
    for place in ("full", "file"):
        with pytest.raises(InputError, match="exists and is not a KB folder"):
            small_kb().save(tmp_path / place)
    assert (tmp_path / "full" / "thesis.tex").read_text() == (tmp_path / "file").read_text() == "precious"
    assert inside(tmp_path) == ["file", "full"]


def test_missing_parents_and_empty_folders_are_fine(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for place in ("empty", "a/b/c"):
        small_kb().save(tmp_path / place)
        assert_same(TemporalKB.load(tmp_path / place), small_kb())


def test_a_file_as_parent(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(InputError, match="cannot be written") as caught:
        small_kb().save(tmp_path / "file" / "kb")
    assert caught.value.hint == "Choose another place."
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_parent_that_may_not_be_written(tmp_path: Path) -> None:
    parent = tmp_path / "parent"
    parent.mkdir(mode=0o500)
    with pytest.raises(InputError, match="cannot be written: Permission denied"):
        small_kb().save(parent / "kb")
    assert inside(parent) == []
