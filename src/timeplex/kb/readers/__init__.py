"""Readers: from a file, several files, a folder or a DataFrame to a `TemporalKB`."""

import gzip
import zlib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from timeplex.errors import InputError
from timeplex.kb.assemble import assemble
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import SPLITS, TemporalKB
from timeplex.kb.readers.columns import Columns
from timeplex.kb.readers.frames import read_frame, read_json_lines
from timeplex.kb.readers.labels import LABEL_FILES, read_labels
from timeplex.kb.readers.parquet import read_parquet
from timeplex.kb.readers.text import read_text
from timeplex.kb.spellings import USUAL, DateStyle
from timeplex.kb.table import Table

READERS: dict[str, Callable[..., Table]] = {
    ".csv": partial(read_text, separator=",", others=";\t|", quoting=True),
    ".tsv": partial(read_text, separator="\t", quoting=True),
    ".txt": partial(read_text, separator="\t", quoting=False),
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".parquet": read_parquet,
}
"""Readers by suffix; each also reads the file packed with gzip (`.csv.gz`). To add a format, add a line."""


def read_table(path: Path, *, split: str = "train", columns: Columns, encoding: str | None = None) -> Table:
    """Read one file as a table of text, by its suffix."""
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a file.", "Give the files in it.")
    reader = READERS.get(suffix(path))
    if reader is None:
        known = ", ".join(READERS)
        raise InputError(f"{path} has no suffix that says how to read it.", f"Known are {known}, each also with .gz.")
    data = file_bytes(path)
    if encoding is not None:
        if not (isinstance(reader, partial) and reader.func is read_text):
            raise InputError(f"{path} has its encoding fixed by its format.", "Leave out --encoding.")
        reader = partial(reader, encoding=encoding)
    return reader(data, source=str(path), split=split, columns=columns)


def suffix(path: Path) -> str:
    """What says how a file is written, in lower case and without .gz."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def file_bytes(path: Path) -> bytes:
    """The bytes of a file, unpacked if it ends in .gz."""
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist.", "Check the path.") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.", "Check its permissions.") from error
    if path.name.lower().endswith(".gz"):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{path} is not a whole gzip file.", "Pack or download it again.") from error
    return data


def _filled(table: Table) -> Table:
    if table.rows_read == 0:
        raise InputError(f"{table.source} is empty.", "Give a table with one fact a row.")
    return table


def read_files(
    paths: Iterable[Path],
    *,
    columns: Columns | None = None,
    granularity: Granularity | None = None,
    encoding: str | None = None,
    labels: Path | None = None,
    name: str | None = None,
    style: DateStyle = USUAL,
) -> TemporalKB:
    """Read one or more files into the training split of a KB."""
    columns = columns or Columns()
    files = list(dict.fromkeys(paths))
    if not files:
        raise InputError("There is no file to read.", "Give at least one path.")
    tables = [_filled(read_table(path, columns=columns, encoding=encoding)) for path in files]
    entity_labels = read_labels(labels) if labels is not None else None
    name = name or files[0].name.split(".")[0]
    return assemble(tables, name=name, granularity=granularity, entity_labels=entity_labels, style=style)


def find_splits(folder: Path) -> dict[str, Path]:
    """The train, valid and test file of a folder, as far as they are there."""
    found: dict[str, Path] = {}
    for split in SPLITS:
        matches = [
            path for path in sorted(folder.iterdir()) if path.name.split(".")[0] == split and suffix(path) in READERS
        ]
        if len(matches) > 1:
            both = " and ".join(path.name for path in matches)
            raise InputError(f"{folder} has two files for {split}: {both}.", "Keep one.")
        if matches:
            found[split] = matches[0]
    return found


def read_folder(
    folder: Path,
    *,
    columns: Columns | None = None,
    granularity: Granularity | None = None,
    name: str | None = None,
    style: DateStyle = USUAL,
) -> TemporalKB:
    """Read a folder with train, valid and test files (valid and test may be missing or empty), and its labels."""
    columns = columns or Columns()
    files = find_splits(folder)
    if "train" not in files:
        raise InputError(f"{folder} has no train file.", "It wants train.txt (or .csv, .tsv, .parquet, .jsonl).")
    tables = [read_table(path, split=split, columns=columns) for split, path in files.items()]
    _filled(tables[0])
    labels = {kind: read_labels(folder / file) for kind, file in LABEL_FILES.items() if (folder / file).is_file()}
    return assemble(
        tables,
        name=name or folder.name,
        granularity=granularity,
        entity_labels=labels.get("entities"),
        relation_labels=labels.get("relations"),
        style=style,
    )


def from_frame(
    frame: Any,
    *,
    columns: Columns | None = None,
    granularity: Granularity | None = None,
    name: str = "table",
    style: DateStyle = USUAL,
) -> TemporalKB:
    """Read a DataFrame of pandas, polars or pyarrow."""
    table = read_frame(frame, source="DataFrame", split="train", columns=columns or Columns())
    return assemble([_filled(table)], name=name, granularity=granularity, style=style)
