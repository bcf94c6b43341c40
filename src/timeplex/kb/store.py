"""A KB as a folder: facts, names and problems as Parquet, the rest as JSON, and a manifest of checksums.

facts.parquet       split, s, r, o, begin, end (null where open)
entities.parquet    name, label (null where the name is its own label)
relations.parquet   the same
problems.parquet    what was odd in the input
kb.json             format, name, granularity, rows read, counts
MANIFEST.json       format, SHA-256 of each file above
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from timeplex.errors import DamagedError, InputError
from timeplex.files import checksum
from timeplex.kb import spans
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import Facts, TemporalKB
from timeplex.kb.names import Names
from timeplex.kb.problems import SCHEMA, Problems, Unlisted

FORMAT = 1
MANIFEST = "MANIFEST.json"
DESCRIPTION = "kb.json"
FILES = ("entities.parquet", "facts.parquet", DESCRIPTION, "problems.parquet", "relations.parquet")


def is_kb_folder(path: Path) -> bool:
    """Whether `save` wrote this folder."""
    return (path / MANIFEST).is_file() and (path / DESCRIPTION).is_file()


def save(kb: TemporalKB, folder: Path) -> None:
    """Write the KB; an older KB of that name is replaced in one step, anything else is left alone."""
    with new_folder(folder) as building:
        _facts_frame(kb).write_parquet(building / "facts.parquet")
        _names_frame(kb.entities).write_parquet(building / "entities.parquet")
        _names_frame(kb.relations).write_parquet(building / "relations.parquet")
        kb.problems.frame.write_parquet(building / "problems.parquet")
        description = {
            "format": FORMAT,
            "name": kb.name,
            "granularity": str(kb.granularity),
            "rows_read": kb.problems.rows_read,
            "splits": {split: len(facts) for split, facts in kb.splits.items()},
            "entities": len(kb.entities),
            "relations": len(kb.relations),
        }
        if kb.problems.unlisted:
            description["unlisted"] = [asdict(more) for more in kb.problems.unlisted]
        _write_json(building / DESCRIPTION, description)
        _write_json(
            building / MANIFEST, {"format": FORMAT, "sha256": {name: checksum(building / name) for name in FILES}}
        )


def load(folder: Path) -> TemporalKB:
    """Read a folder that `save` wrote, after checking every checksum."""
    if not is_kb_folder(folder):
        raise InputError(f"{folder} is not a KB folder.", "Make one with: timeplex import FILE -o DIR")
    try:
        verify(folder, FILES)
        return _load(folder)
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error.strerror or error}.", "Check its permissions.") from error


def _load(folder: Path) -> TemporalKB:
    description = _json(folder / DESCRIPTION)
    frame = _read(folder / "facts.parquet")
    splits = {split: _facts(frame.filter(pl.col("split") == split)) for split in description["splits"]}
    return TemporalKB(
        _names(_read(folder / "entities.parquet")),
        _names(_read(folder / "relations.parquet")),
        Granularity(description["granularity"]),
        splits,
        Problems(
            _read(folder / "problems.parquet").match_to_schema(SCHEMA),
            description["rows_read"],
            tuple(Unlisted(**more) for more in description.get("unlisted", ())),
        ),
        description["name"],
    )


def check_target(folder: Path) -> None:
    """Refuse a place that holds something else than a KB, before work begins."""
    if folder.exists() and not is_kb_folder(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not a KB folder.", "Choose another name, or remove it first.")


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder beside `folder` that takes its place when the block ends well, and else vanishes.

    An existing KB folder or empty folder is replaced; anything else is refused.
    """
    check_target(folder)
    place = folder.resolve()  # where a link leads to, so that the link stays
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}.", "Choose another place.") from error
    try:
        building.chmod(0o755)
        yield building
        for path in building.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        _put(building, place)
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror or error}.", "Is the disk full?") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _put(building: Path, folder: Path) -> None:
    """Give the finished folder its name; if that fails, what had the name before has it again."""
    if not folder.exists():
        building.rename(folder)
        return
    old = building.with_name(building.name + "-old")
    folder.rename(old)
    try:
        building.rename(folder)
    except OSError:
        old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def verify(folder: Path, files: Sequence[str]) -> None:
    """Check that the manifest of a folder lists just these files, and that each has its checksum."""
    manifest = _json(folder / MANIFEST)
    found = manifest.get("format")
    if found != FORMAT:
        raise InputError(
            f"{folder} has format {found}, this version reads format {FORMAT}.", "Import the source again."
        )
    sums = manifest.get("sha256")
    if not isinstance(sums, dict) or set(sums) != set(files):
        raise DamagedError(f"{folder / MANIFEST} does not list the checksums.", "Import the source again.")
    for name in files:
        path = folder / name
        if not path.is_file():
            raise DamagedError(f"{path} is missing.", "Import the source again.")
        if checksum(path) != sums[name]:
            raise DamagedError(f"{path} has been changed or damaged.", "Import the source again.")


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False), encoding="utf-8")


def _read(path: Path) -> pl.DataFrame:
    """A Parquet file; its name is taken as it is, whatever characters are in it."""
    return pl.read_parquet(path, memory_map=False, glob=False)


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DamagedError(f"{path} is not JSON.", "Import the source again.") from error
    if not isinstance(value, dict):
        raise DamagedError(f"{path} is not what it should be.", "Import the source again.")
    return value


def _facts_frame(kb: TemporalKB) -> pl.DataFrame:
    frames = [
        pl.DataFrame({"s": facts.s, "r": facts.r, "o": facts.o, "begin": facts.begin, "end": facts.end}).with_columns(
            pl.lit(split).alias("split"),
            pl.col("begin").replace(spans.OPEN_BEGIN, None),
            pl.col("end").replace(spans.OPEN_END, None),
        )
        for split, facts in kb.splits.items()
    ]
    return pl.concat(frames)


def _facts(frame: pl.DataFrame) -> Facts:
    closed = frame.with_columns(pl.col("begin").fill_null(spans.OPEN_BEGIN), pl.col("end").fill_null(spans.OPEN_END))
    return Facts(*(closed[name].to_numpy().astype(np.int32) for name in ("s", "r", "o", "begin", "end")))


def _names_frame(names: Names) -> pl.DataFrame:
    labels = pl.Series("label", [names.labels.get(name) for name in names] if names.labels else [None] * len(names))
    return pl.DataFrame([names.names, labels.cast(pl.String)])


def _names(frame: pl.DataFrame) -> Names:
    labelled = frame.drop_nulls("label")
    return Names(frame["name"], dict(zip(labelled["name"], labelled["label"], strict=True)))
