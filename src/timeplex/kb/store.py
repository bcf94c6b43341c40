"""A KB as a folder with a manifest of checksums, or as plain files.

facts.parquet       split, s, r, o, begin, end (null where open), and where it was read: file (a place in the list of
                    kb.json) and line; null where that is not known, as in all of an older folder
entities.parquet    name, label (null where the name is its own label)
relations.parquet   the same
problems.parquet    what was odd in the input
kb.json             format, name, granularity, rows read, counts
MANIFEST.json       format, SHA-256 of each file above

Plain files, which the readers read back, are CSV, TSV, JSON lines, JSON, Parquet, HyTE/ICEWS text. `formulas` says what
becomes of texts in CSV and TSV that a spreadsheet would take for formulas. True leaves them as they are: that is the
rule for KBs, so that what is written is read back to the letter. False puts an apostrophe before them: that is the rule
for tables that people open. Other formats hold every text as it is.
"""

import gzip
import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from pydantic import Field

from timeplex import files
from timeplex.errors import DamagedError, InputError
from timeplex.files import AGAIN, Record, parse_json, recover, to_json, verified, write_whole
from timeplex.files import FORMAT as FORMAT
from timeplex.files import MANIFEST as MANIFEST
from timeplex.kb import dates, spans
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import Facts, TemporalKB, pair_key, split_key
from timeplex.kb.names import Names, increasing
from timeplex.kb.problems import FACT, SCHEMA, TOLD, Action, Kind, Problems, Unlisted
from timeplex.kb.readers.packed import declared_sizes, parquet_frame
from timeplex.typing import Ints

FACTS = {"s": pl.Int32, "r": pl.Int32, "o": pl.Int32, "begin": pl.Int32, "end": pl.Int32, "split": pl.String}
ORIGIN = {"file": pl.Int32, "line": pl.Int32}
NAMES = {"name": pl.String, "label": pl.String}

Schema = Mapping[str, type[pl.DataType] | pl.DataType]

FREE_ROWS, ROWS_A_BYTE = 2_000_000, 4
"""The most rows of a table: so many for any, and so many more for each byte of its file."""

FREE_BYTES, BYTES_A_BYTE = 200_000_000, 32
"""The most bytes that its pages may unpack to, likewise."""

YEARS = (-10_000, 10_000)
"""All dates lie between these."""

Count = Annotated[int, Field(ge=0, lt=2**31)]


class Description(Record):
    """What kb.json says."""

    format: Literal[1]
    name: str = Field(max_length=10_000)
    granularity: Granularity
    rows_read: int = Field(ge=0, lt=2**62)
    splits: dict[Literal["train", "valid", "test"], Count]
    entities: Count
    relations: Count
    unlisted: tuple[Unlisted, ...] = ()
    files: tuple[Annotated[str, Field(max_length=10_000)], ...] = ()


def table(content: bytes, source: object, schema: Schema, newer: Sequence[str] = ()) -> pl.DataFrame:
    """The content of a Parquet file as a table with just these columns; null ones stand in for all the newer ones."""
    try:
        rows, unpacked = declared_sizes(content)
        if rows > FREE_ROWS + ROWS_A_BYTE * len(content) or unpacked > FREE_BYTES + BYTES_A_BYTE * len(content):
            raise DamagedError(f"{source} declares more than a file of its size can hold.", AGAIN)
        frame = parquet_frame(content, str(source))
    except DamagedError:
        raise
    except Exception as error:
        raise DamagedError(f"{source} is not a readable Parquet file.", AGAIN) from error
    if not set(newer) & set(frame.columns):
        frame = frame.with_columns(pl.lit(None, schema[name]).alias(name) for name in newer)
    if dict(frame.schema) != dict(schema):
        raise DamagedError(f"{source} does not have the columns {', '.join(schema)} of their types.", AGAIN)
    return frame


def names(frame: pl.DataFrame, number: int, source: object) -> Names:
    """Names, which must be sorted and distinct: the numbers in the facts are their places."""
    texts = frame["name"]
    _require(frame.height == number, source, f"has {frame.height:,} names where kb.json says {number:,}")
    _require(texts.null_count() == 0, source, "has a name that is null")
    _require(increasing(texts), source, "has names that are not sorted and distinct")
    labelled = frame.drop_nulls("label")
    return Names(texts, dict(zip(labelled["name"], labelled["label"], strict=True)))


def splits(frame: pl.DataFrame, said: Description, source: object) -> dict[str, Facts]:
    """The facts of each split, after holding them against the names, the calendar and the counts."""
    _require("train" in said.splits, source, "has no train facts, because kb.json has no such split")
    for column in ("s", "r", "o", "split"):
        _require(frame[column].null_count() == 0, source, f"has a null in the column {column}")
    counts = dict(frame.group_by("split").len().iter_rows())
    agreed = {split: number for split, number in said.splits.items() if number} == counts
    _require(agreed, source, "has other numbers of facts in its splits than kb.json says")
    _within_bounds(frame, said, source)
    placed = _within(frame["file"].drop_nulls(), 0, len(said.files) - 1) and bool(
        (frame["line"].drop_nulls() >= 0).all()
    )
    _require(placed, source, "has a fact from a file, or a line, that there is not")
    closed = frame.with_columns(pl.col("begin").fill_null(spans.OPEN_BEGIN), pl.col("end").fill_null(spans.OPEN_END))
    _require(bool((closed["begin"] <= closed["end"]).all()), source, "has a fact that ends before it begins")
    parts = {split: closed.filter(pl.col("split") == split) for split in said.splits}
    return {
        split: Facts(*(part[name].to_numpy() for name in FACT), source=_sources(part, said))
        for split, part in parts.items()
    }


def _sources(part: pl.DataFrame, said: Description) -> Ints | None:
    """Where the facts were read; None if that is not known of any."""
    if not said.files:
        return None
    known = part["file"].is_not_null() & part["line"].is_not_null()
    file, line = (part[name].fill_null(0).to_numpy() for name in ORIGIN)
    return np.where(known.to_numpy(), pair_key(file, line), -1)


def problems(frame: pl.DataFrame, said: Description, source: object) -> Problems:
    """What was odd in the input, of kinds that are known."""
    _require(sum(frame.select(TOLD.names()).null_count().row(0)) == 0, source, "has a null")
    _within_bounds(frame, said, source)
    for column, known in (("kind", Kind), ("action", Action)):
        _require(bool(frame[column].is_in(list(known)).all()), source, f"has an unknown {column}")
    for more in said.unlisted:
        known_kind = more.kind in list(Kind) and more.action in list(Action)
        _require(known_kind and 0 < more.rows <= said.rows_read, source, "has more problems than kb.json can count")
    found = Problems(frame.select(SCHEMA.names()), said.rows_read, tuple(said.unlisted))
    _require(
        found.set_aside <= said.rows_read, source, f"sets more rows aside than the {said.rows_read:,} that were read"
    )
    return found


def _within_bounds(frame: pl.DataFrame, said: Description, source: object) -> None:
    """Hold the columns of facts against the names and the calendar."""
    for column, number in (("s", said.entities), ("r", said.relations), ("o", said.entities)):
        named = _within(frame[column].drop_nulls(), 0, number - 1)
        _require(named, source, f"has a number in {column} that names nothing")
    first, last = _calendar(said.granularity)
    for column in ("begin", "end"):
        _require(_within(frame[column].drop_nulls(), first, last), source, f"has a date in {column} beyond all years")


def _within(column: pl.Series, low: int, high: int) -> bool:
    return bool(((column >= low) & (column <= high)).all())


def _calendar(granularity: Granularity) -> tuple[int, int]:
    """The first and the last instant that a date can be."""
    first, last = YEARS
    if granularity is Granularity.DAY:
        return int(dates.day_number(first, 1, 1)), int(dates.day_number(last, 12, 31))
    return (first * 12, last * 12 + 11) if granularity is Granularity.MONTH else YEARS


def _require(holds: bool, source: object, problem: str) -> None:
    if not holds:
        raise DamagedError(f"{source} {problem}.", AGAIN)


DESCRIPTION = "kb.json"
FILES = ("entities.parquet", "facts.parquet", DESCRIPTION, "problems.parquet", "relations.parquet")
LEARNED = tuple(f"{name}.{suffix}" for name in ("dates", "links") for suffix in ("json", "safetensors"))
"""What was learned of a KB may be kept in its folder (`answers.kept`); it goes with the KB."""


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
    if kb.files:
        description["files"] = list(kb.files)
    if kb.problems.unlisted:
        description["unlisted"] = [asdict(more) for more in kb.problems.unlisted]
    contents = {
        "facts.parquet": _parquet(_facts_frame(kb)),
        "entities.parquet": _parquet(_names_frame(kb.entities)),
        "relations.parquet": _parquet(_names_frame(kb.relations)),
        "problems.parquet": _parquet(kb.problems.frame),
        DESCRIPTION: _json(description),
    }
    sums = {name: hashlib.sha256(contents[name]).hexdigest() for name in FILES}
    files.write_folder(folder, {**contents, MANIFEST: _json({"format": FORMAT, "sha256": sums})})


def load(folder: Path) -> TemporalKB:
    """Read a folder that `save` wrote, after checking every checksum and what the files say."""
    if not is_kb_folder(folder):
        raise InputError(f"{folder} is not a KB folder.", "Make one with: timeplex import FILE -o DIR")
    contents = verified(folder, FILES)
    said = parse_json(contents[DESCRIPTION], Description, folder / DESCRIPTION)

    def read(name: str, schema: Schema, newer: Sequence[str] = ()) -> tuple[pl.DataFrame, Path]:
        return table(contents[name], folder / name, schema, newer), folder / name

    entities, named = read("entities.parquet", NAMES)
    relations, called = read("relations.parquet", NAMES)
    facts, stated = read("facts.parquet", {**FACTS, **ORIGIN}, tuple(ORIGIN))
    listed, odd = read("problems.parquet", SCHEMA, FACT)
    return TemporalKB(
        names(entities, said.entities, named),
        names(relations, said.relations, called),
        said.granularity,
        splits(facts, said, stated),
        problems(listed, said, odd),
        said.name,
        said.files,
    )


def check_target(folder: Path) -> None:
    """Refuse a place that holds something else than a KB, before work begins."""
    recover(folder)
    if not folder.exists():
        return
    if not folder.is_dir() or not (is_kb_folder(folder) or not any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not a KB folder.", "Choose another name, or remove it first.")
    foreign = sorted({path.name for path in folder.iterdir()} - {MANIFEST, *FILES, *LEARNED})
    if foreign:
        raise InputError(f"{folder} also holds {foreign[0]!r}, which is not of the KB.", "Move it elsewhere first.")


def _json(value: dict[str, Any]) -> bytes:
    return to_json(value, indent=1, ensure_ascii=False).encode()


def _parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


def _facts_frame(kb: TemporalKB) -> pl.DataFrame:
    frames = [
        pl.DataFrame(dict(zip(FACT, facts.columns, strict=True))).with_columns(
            pl.lit(split).alias("split"),
            pl.col("begin").replace(spans.OPEN_BEGIN, None),
            pl.col("end").replace(spans.OPEN_END, None),
            **(_origin(facts) if kb.files else {}),
        )
        for split, facts in kb.splits.items()
    ]
    return pl.concat(frames)


def _origin(facts: Facts) -> dict[str, pl.Series]:
    """The columns that say where facts were read, null where that is not known."""
    source = np.full(len(facts), -1) if facts.source is None else facts.source
    known = pl.Series(source >= 0)
    columns = zip(ORIGIN, split_key(np.maximum(source, 0)), strict=True)
    null = pl.Series([None], dtype=pl.Int32)
    return {name: pl.Series(numbers.astype(np.int32)).zip_with(known, null) for name, numbers in columns}


def _names_frame(names: Names) -> pl.DataFrame:
    labels = pl.Series("label", [names.labels.get(name) for name in names] if names.labels else [None] * len(names))
    return pl.DataFrame([names.names, labels.cast(pl.String)])


# Plain files ----------------------------------------------------------------------------------------------------------

SIGNS = "-=+@＝＋－＠"
SEPARATORS = ",;|\t\r\n"
BLANK = r"[^\S\t\r\n]|[\"\ufeff\u200b]"
"""What a spreadsheet may pass over at the begin of a cell."""

NUMBER = r"[+-]?\d[\d.,]*(?:[eE][+-]?\d+)?%?|-\d{4,}-\d\d(?:-\d\d)?|-"

CANDIDATE = rf"[{SIGNS}\t\r\n]"
FORMULA = re.compile(
    rf"""^(?=[\t\r\n])
    | ^ ((?:{BLANK})*) (?=[{SIGNS}]) (?! (?:{NUMBER}) (?:{BLANK})* \Z)
    | ([{SEPARATORS}]) ((?:{BLANK})*) (?=[{SIGNS}]) (?! (?:{NUMBER}) (?:{BLANK})* (?: \Z | [{SEPARATORS}] ))""",
    re.VERBOSE,
)


def harmless(text: str) -> str:
    """The text with an apostrophe before each formula."""
    return FORMULA.sub(lambda found: f"{found[2] or ''}'{found[1] or found[3] or ''}", text)


def without_formulas(frame: pl.DataFrame) -> pl.DataFrame:
    """A table whose texts, column names included, are harmless; numbers stay numbers."""
    changed = frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
    changed = changed.with_columns(_harmless(column) for column in changed if column.dtype == pl.String)
    names: list[str] = []
    for name in map(harmless, frame.columns):
        names.append(f"'{name}" if name in names else name)
    changed.columns = names
    return changed


def _harmless(column: pl.Series) -> pl.Series:
    """Only what may hold a formula is looked at text by text."""
    odd = column.filter(column.str.contains(CANDIDATE)).unique()
    return column.replace(odd, pl.Series([harmless(text) for text in odd], dtype=pl.String))


def write_file(kb: TemporalKB, path: Path, split: str | None = None, *, formulas: bool = True) -> None:
    """Write the facts of one split (all if None) in the format that the suffix names, packed if `.gz`.

    Columns are subject, relation, object, begin, end; an open end is an empty field. The file appears
    whole or not at all. For a spreadsheet, give `formulas=False`: names such as `=1+1` then get an apostrophe.
    """
    write_frame(_facts(kb, split), path, formulas=formulas)


def write_folder(kb: TemporalKB, folder: Path, suffix: str = ".txt", *, formulas: bool = True) -> None:
    """Write train, valid and test files into a folder; none of them if one cannot be written in this format."""
    paths = {split: folder / f"{split}{suffix}" for split in kb.splits}
    contents = {path: _packed(_facts(kb, split), path, formulas=formulas) for split, path in paths.items()}
    for path, data in contents.items():
        write_whole(path, data)


def write_frame(frame: pl.DataFrame, path: Path, separator: str = ",", *, formulas: bool = False) -> None:
    """Write any table in the format that the suffix names; `separator` is for .csv."""
    write_whole(path, _packed(frame, path, separator, formulas=formulas))


def _facts(kb: TemporalKB, split: str | None) -> pl.DataFrame:
    frame = kb.to_polars()
    if split is not None:
        frame = frame.filter(pl.col("split") == split)
    return frame.drop("split")


def _packed(frame: pl.DataFrame, path: Path, separator: str = ",", *, formulas: bool) -> bytes:
    """A table in the format that the suffix of a path names."""
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    buffer = io.BytesIO()
    if suffix == ".txt":
        buffer.write(_hyte(frame, path))
    elif suffix in (".csv", ".tsv"):
        frame = frame if formulas else without_formulas(frame)
        frame.write_csv(buffer, separator=separator if suffix == ".csv" else "\t")
    elif suffix in (".jsonl", ".ndjson"):
        frame.write_ndjson(buffer)
    elif suffix == ".json":
        frame.write_json(buffer)
    elif suffix == ".parquet":
        frame.write_parquet(buffer)
    else:
        raise InputError(
            f"{path} has no suffix that says how to write it.", "Use .csv, .tsv, .jsonl, .json, .parquet or .txt."
        )
    return gzip.compress(buffer.getvalue(), mtime=0) if path.suffix.lower() == ".gz" else buffer.getvalue()


def _hyte(frame: pl.DataFrame, path: Path) -> bytes:
    """The benchmarks' form: no header, `1952-##-##` for a year, `####-##-##` for an open end."""
    names = frame.select("subject", "relation", "object")
    if names.select(pl.any_horizontal(pl.all().str.contains(r"[\t\n\r]")).any()).item():
        raise InputError(f"A name holds a TAB or a line break, which {path.name} cannot.", "Write .csv or .parquet.")
    dashes = (pl.col("begin", "end").str.strip_prefix("-").str.count_matches("-", literal=True) * 3).cast(pl.Int64)
    stated = pl.col("begin", "end") + pl.lit("-##-##").str.slice(dashes)
    written = frame.with_columns(stated.fill_null("####-##-##"))
    text = written.write_csv(None, separator="\t", include_header=False, quote_style="never")
    # A byte order mark is dropped from the beginning of a file: one that begins a name needs another before it.
    return (f"\ufeff{text}" if text.startswith("\ufeff") else text).encode()
