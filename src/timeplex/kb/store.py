"""A KB as a folder: facts, names and problems as Parquet, the rest as JSON, and a manifest of checksums.

facts.parquet       split, s, r, o, begin, end (null where open)
entities.parquet    name, label (null where the name is its own label)
relations.parquet   the same
problems.parquet    what was odd in the input
kb.json             format, name, granularity, rows read, counts
MANIFEST.json       format, SHA-256 of each file above
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from timeplex.errors import InputError
from timeplex.files import recover, to_json, write_folder
from timeplex.kb import check, spans
from timeplex.kb.facts import TemporalKB
from timeplex.kb.names import Names
from timeplex.kb.problems import SCHEMA
from timeplex.stored import FORMAT as FORMAT
from timeplex.stored import MANIFEST as MANIFEST
from timeplex.stored import parse_json, verified

DESCRIPTION = "kb.json"
FILES = ("entities.parquet", "facts.parquet", DESCRIPTION, "problems.parquet", "relations.parquet")


def is_kb_folder(path: Path) -> bool:
    """Whether `save` wrote this folder."""
    recover(path)
    return (path / MANIFEST).is_file() and (path / DESCRIPTION).is_file()


def save(kb: TemporalKB, folder: Path) -> None:
    """Write the KB; an older KB of that name is replaced in one step, anything else is left alone."""
    check_target(folder)
    description: dict[str, Any] = {
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
    files = {
        "facts.parquet": _parquet(_facts_frame(kb)),
        "entities.parquet": _parquet(_names_frame(kb.entities)),
        "relations.parquet": _parquet(_names_frame(kb.relations)),
        "problems.parquet": _parquet(kb.problems.frame),
        DESCRIPTION: _packed_json(description),
    }
    sums = {name: hashlib.sha256(files[name]).hexdigest() for name in FILES}
    write_folder(folder, {**files, MANIFEST: _packed_json({"format": FORMAT, "sha256": sums})})


def load(folder: Path) -> TemporalKB:
    """Read a folder that `save` wrote, after checking every checksum and what the files say."""
    if not is_kb_folder(folder):
        raise InputError(f"{folder} is not a KB folder.", "Make one with: timeplex import FILE -o DIR")
    contents = verified(folder, FILES)
    said = parse_json(contents[DESCRIPTION], check.Description, folder / DESCRIPTION)

    def table(name: str, schema: Mapping[str, type[pl.DataType] | pl.DataType]) -> tuple[pl.DataFrame, Path]:
        return check.table(contents[name], folder / name, schema), folder / name

    entities, named = table("entities.parquet", check.NAMES)
    relations, called = table("relations.parquet", check.NAMES)
    facts, stated = table("facts.parquet", check.FACTS)
    problems, odd = table("problems.parquet", SCHEMA)
    return TemporalKB(
        check.names(entities, said.entities, named),
        check.names(relations, said.relations, called),
        said.granularity,
        check.splits(facts, said, stated),
        check.problems(problems, said, odd),
        said.name,
    )


def check_target(folder: Path) -> None:
    """Refuse a place that holds something else than a KB, before work begins."""
    recover(folder)
    if not folder.exists():
        return
    if not folder.is_dir() or not (is_kb_folder(folder) or not any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not a KB folder.", "Choose another name, or remove it first.")
    foreign = sorted({path.name for path in folder.iterdir()} - {MANIFEST, *FILES})
    if foreign:
        raise InputError(f"{folder} also holds {foreign[0]!r}, which is not of the KB.", "Move it elsewhere first.")


def _packed_json(value: dict[str, Any]) -> bytes:
    return to_json(value, indent=1, ensure_ascii=False).encode()


def _parquet(frame: pl.DataFrame) -> bytes:
    buffer = BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


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


def _names_frame(names: Names) -> pl.DataFrame:
    labels = pl.Series("label", [names.labels.get(name) for name in names] if names.labels else [None] * len(names))
    return pl.DataFrame([names.names, labels.cast(pl.String)])
