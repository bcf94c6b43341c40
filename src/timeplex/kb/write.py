"""Writing a KB as files that the readers read back: CSV, TSV, JSON lines, JSON, Parquet, HyTE/ICEWS text."""

import gzip
import io
import tempfile
from pathlib import Path

import polars as pl

from timeplex.errors import InputError
from timeplex.files import write_whole
from timeplex.kb.facts import TemporalKB


def write_file(kb: TemporalKB, path: Path, split: str | None = None) -> None:
    """Write the facts of one split (all if None) in the format that the suffix names, packed if `.gz`.

    Columns are subject, relation, object, begin, end; an open end is an empty field. The file appears
    whole or not at all.
    """
    write_frame(_facts(kb, split), path)


def write_folder(kb: TemporalKB, folder: Path, suffix: str = ".txt") -> None:
    """Write train, valid and test files into a folder; none of them if one cannot be written in this format."""
    paths = {split: folder / f"{split}{suffix}" for split in kb.splits}
    files = {path: _packed(_facts(kb, split), path) for split, path in paths.items()}
    for path, data in files.items():
        write_whole(path, data)


def write_frame(frame: pl.DataFrame, path: Path, separator: str = ",") -> None:
    """Write any table in the format that the suffix names; `separator` is for .csv."""
    write_whole(path, _packed(frame, path, separator))


def check_writable(path: Path) -> None:
    """Refuse a place that cannot be written before long work is done for it. Nothing is left there."""
    if path.is_dir():
        raise InputError(f"{path} is a folder.", "Give the name of a file.")
    there = next(folder for folder in path.absolute().parents if folder.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.", "Choose another place.") from error


def _facts(kb: TemporalKB, split: str | None) -> pl.DataFrame:
    frame = kb.to_polars()
    if split is not None:
        frame = frame.filter(pl.col("split") == split)
    return frame.drop("split")


def _packed(frame: pl.DataFrame, path: Path, separator: str = ",") -> bytes:
    data = _encode(frame, path, separator)
    return gzip.compress(data, mtime=0) if path.suffix.lower() == ".gz" else data


def _encode(frame: pl.DataFrame, path: Path, separator: str) -> bytes:
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if suffix == ".txt":
        return _hyte(frame, path)
    buffer = io.BytesIO()
    if suffix in (".csv", ".tsv"):
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
    return buffer.getvalue()


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
