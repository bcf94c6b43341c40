"""Readers: from a file, several files, a folder or a DataFrame to a `TemporalKB`."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from timeplex.errors import InputError
from timeplex.kb.assemble import assemble
from timeplex.kb.date_spellings import USUAL, DateStyle
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import SPLITS, TemporalKB
from timeplex.kb.readers.labels import LABEL_FILES, read_labels
from timeplex.kb.readers.opening import STANDARD_INPUT, file_bytes, shown, unpacked_limit
from timeplex.kb.readers.parquet import read_parquet
from timeplex.kb.readers.rows import read_frame, read_json, read_json_lines, read_rows
from timeplex.kb.readers.sheets import read_sheet
from timeplex.kb.readers.table import Columns, Table
from timeplex.kb.readers.text import read_text

TEXT: dict[str, Callable[..., Table]] = {
    ".csv": partial(read_text, separator=",", others=";\t|", quoting=True),
    ".tsv": partial(read_text, separator="\t", quoting=True),
    ".txt": partial(read_text, separator="\t", quoting=False),
}
"""Readers that take `encoding`."""

PACKED: dict[str, Callable[..., Table]] = {".parquet": read_parquet, ".xlsx": read_sheet, ".ods": read_sheet}
"""Readers of what is packed in itself, which take `limit`; those of spreadsheets take `sheet`, too."""

READERS: dict[str, Callable[..., Table]] = {
    **TEXT,
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".json": read_json,
    **PACKED,
}
"""Readers by suffix; each also reads the file packed with gzip (`.csv.gz`). To add a format, add a line."""


@dataclass(frozen=True)
class Opening:
    """How files are opened: the encoding of text that is not UTF-8, the sheet of a spreadsheet, the format where the
    suffix does not tell (`csv`), and how many bytes a packed file may unpack to.
    """

    encoding: str | None = None
    sheet: str | None = None
    format: str | None = None
    max_unpacked: int | None = None


def read_table(path: Path, *, split: str = "train", columns: Columns, opening: Opening | None = None) -> Table:
    """Read one file as a table of text, by its suffix; `-` is standard input."""
    opening, source = opening or Opening(), shown(path)
    if path != STANDARD_INPUT and path.is_dir():
        raise InputError(f"{source} is a folder, not a file.", "Give the files in it.")
    given = "" if opening.format is None else f".{opening.format.lower().removeprefix('.')}"
    if given and given not in READERS:
        raise InputError(f"{opening.format!r} is not a format.", f"Known are {_known()}.")
    if not given and path != STANDARD_INPUT and suffix(path) not in READERS:
        hint = f"Known are {', '.join(READERS)}, each also with .gz; or say the"
        problem = f"{source} has no suffix that says how to read it."
        raise InputError(problem, f'{hint} format="csv".', f"{hint} --format.")
    data = file_bytes(path, opening.max_unpacked)
    kind = given or (sniffed(data) if path == STANDARD_INPUT else suffix(path))
    return READERS[kind](
        data, source=source, split=split, columns=columns, **_options(kind, opening, len(data), source)
    )


def _known() -> str:
    return ", ".join(kind.removeprefix(".") for kind in READERS)


def _options(kind: str, opening: Opening, size: int, source: str) -> dict[str, Any]:
    """What the reader of a format is told besides; what it cannot use is an error."""
    options: dict[str, Any] = {}
    if opening.encoding is not None:
        if kind not in TEXT:
            raise InputError(f"{source} has its encoding fixed by its format.", "Leave the encoding out.")
        options["encoding"] = opening.encoding
    if kind in PACKED:
        options["limit"] = unpacked_limit(size, opening.max_unpacked)
    if PACKED.get(kind) is read_sheet:
        options["sheet"] = opening.sheet
    elif opening.sheet is not None:
        raise InputError(f"{source} is not a spreadsheet.", "Leave the sheet out.")
    return options


def sniffed(data: bytes) -> str:
    """The format of data that has no name."""
    beginning = data[: 1 << 16].removeprefix(b"\xef\xbb\xbf").lstrip()
    if beginning.startswith(b"PAR1"):
        return ".parquet"
    if beginning.startswith(b"PK\x03\x04"):
        return ".ods" if b"opendocument" in beginning[:200] else ".xlsx"
    first_line = beginning.split(b"\n", 1)[0].strip()
    if beginning.startswith(b"["):
        return ".json"
    if beginning.startswith(b"{"):
        return ".jsonl" if first_line.endswith(b"}") else ".json"
    return ".tsv" if b"\t" in first_line else ".csv"


def suffix(path: Path) -> str:
    """What says how a file is written, in lower case and without .gz."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _filled(table: Table) -> Table:
    if table.rows_read == 0:
        raise InputError(f"{table.source} is empty.", "Give a table with one fact a row.")
    return table


def read_files(
    paths: Iterable[Path],
    *,
    columns: Columns | None = None,
    granularity: Granularity | None = None,
    opening: Opening | None = None,
    name: str | None = None,
    merge_names: bool = False,
    style: DateStyle = USUAL,
) -> TemporalKB:
    """Read one or more files into the training split of a KB."""
    columns = columns or Columns()
    files = list(dict.fromkeys(paths))
    if not files:
        raise InputError("There is no file to read.", "Give at least one path.")
    tables = [_filled(read_table(path, columns=columns, opening=opening)) for path in files]
    name = name or ("table" if files[0] == STANDARD_INPUT else shown(Path(files[0].name)).split(".")[0])
    return assemble(tables, name=name, granularity=granularity, merge_names=merge_names, style=style)


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
    merge_names: bool = False,
    style: DateStyle = USUAL,
) -> TemporalKB:
    """Read a folder with train, valid and test files (valid and test may be missing or empty), and its labels."""
    columns = columns or Columns()
    files = find_splits(folder)
    if "train" not in files:
        raise InputError(f"{shown(folder)} has no train file.", "It wants train.txt (or .csv, .parquet, .json …).")
    tables = [read_table(path, split=split, columns=columns) for split, path in files.items()]
    _filled(tables[0])
    labels = {kind: read_labels(folder / file) for kind, file in LABEL_FILES.items() if (folder / file).is_file()}
    return assemble(
        tables,
        name=name or shown(Path(folder.name)),
        granularity=granularity,
        entity_labels=labels.get("entities"),
        relation_labels=labels.get("relations"),
        style=style,
        merge_names=merge_names,
    )


def from_table(
    data: Any,
    *,
    columns: Columns | None = None,
    granularity: Granularity | None = None,
    name: str = "table",
    merge_names: bool = False,
    style: DateStyle = USUAL,
) -> TemporalKB:
    """Read a DataFrame of pandas, polars or pyarrow, or rows: mappings {column: value} or (s, r, o[, begin[, end]])."""
    columns = columns or Columns()
    if isinstance(data, list | tuple | Iterator):
        table = read_rows(data, source="The table", split="train", columns=columns)
    else:
        table = read_frame(data, source="DataFrame", split="train", columns=columns)
    return assemble([_filled(table)], name=name, granularity=granularity, merge_names=merge_names, style=style)
