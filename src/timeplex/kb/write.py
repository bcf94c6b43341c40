"""Writing a KB as files that the readers read back: CSV, TSV, JSON lines, JSON, Parquet, HyTE/ICEWS text.

`formulas` says what becomes of texts in CSV and TSV that a spreadsheet would take for formulas. True leaves them as
they are: that is the rule for KBs, so that what is written is read back to the letter. False puts an apostrophe before
them: that is the rule for tables that people open. Other formats hold every text as it is.
"""

import gzip
import io
import re
from pathlib import Path

import polars as pl

from timeplex.errors import InputError
from timeplex.files import write_whole
from timeplex.kb.facts import TemporalKB

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
    return changed.rename(dict(zip(frame.columns, names, strict=True)))


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
    files = {path: _packed(_facts(kb, split), path, formulas=formulas) for split, path in paths.items()}
    for path, data in files.items():
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
    data = _encode(frame, path, separator, formulas)
    return gzip.compress(data, mtime=0) if path.suffix.lower() == ".gz" else data


def _encode(frame: pl.DataFrame, path: Path, separator: str, formulas: bool) -> bytes:
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if suffix == ".txt":
        return _hyte(frame, path)
    buffer = io.BytesIO()
    if suffix in (".csv", ".tsv"):
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
