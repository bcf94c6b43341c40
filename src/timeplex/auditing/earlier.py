"""The table of an earlier audit, read back to tell what is new."""

import io
from pathlib import Path

import polars as pl

from timeplex.auditing.findings import KEY
from timeplex.errors import InputError
from timeplex.kb.readers.opening import file_bytes, shown, unpacked_limit
from timeplex.kb.readers.parquet import parquet_frame


def read_earlier(source: str | Path | pl.DataFrame) -> pl.DataFrame:
    """A table of findings as `timeplex audit -o` writes it; only the columns that tell findings apart are kept."""
    if isinstance(source, pl.DataFrame):
        return _checked(source, "The earlier table")
    path = Path(source)
    data = file_bytes(path)
    try:
        frame = _parsed(path, data)
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path} is not a table of findings.", "Give what `timeplex audit -o` wrote.") from error
    return _checked(frame, shown(path))


def _parsed(path: Path, data: bytes) -> pl.DataFrame:
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if suffix in (".csv", ".tsv"):
        return pl.read_csv(io.BytesIO(data), separator="," if suffix == ".csv" else "\t", infer_schema=False)
    if suffix in (".jsonl", ".ndjson"):
        return pl.read_ndjson(io.BytesIO(data), infer_schema_length=None) if data.strip() else _empty()
    if suffix == ".parquet":
        return parquet_frame(data, shown(path), unpacked_limit(len(data)))
    raise InputError(f"{path} has no suffix that says how to read it.", "Use .csv, .tsv, .jsonl or .parquet.")


def _empty() -> pl.DataFrame:
    return pl.DataFrame(schema=dict.fromkeys(KEY, pl.String))


def _checked(frame: pl.DataFrame, source: str) -> pl.DataFrame:
    missing = [name for name in KEY if name not in frame.columns]
    if missing:
        raise InputError(
            f"{source} is not a table of findings: it has no column {missing[0]!r}.",
            "Give what `timeplex audit -o` wrote.",
        )
    return frame.select(pl.col(KEY).cast(pl.String))
