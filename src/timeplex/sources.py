"""One way in: `read` makes a `TemporalKB` of whatever names or holds one."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from timeplex.datasets import benchmarks
from timeplex.errors import InputError, UnknownNameError
from timeplex.kb import store
from timeplex.kb.assemble import Making
from timeplex.kb.date_spellings import USUAL, DateStyle
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import TemporalKB
from timeplex.kb.names import Names
from timeplex.kb.readers import Opening, find_splits, from_table, read_files, read_folder, read_labels
from timeplex.kb.readers.packed import STANDARD_INPUT
from timeplex.kb.readers.table import Columns
from timeplex.text import did_you_mean
from timeplex.typing import Progress


class Options(Making):
    """What the readers of files and tables are told."""

    columns: Columns


NO_OPTIONS = Options(columns=Columns(), granularity=None, merge_names=False, style=USUAL)


def read(
    source: Any,
    *,
    subject: str | None = None,
    relation: str | None = None,
    object: str | None = None,
    begin: str | None = None,
    end: str | None = None,
    granularity: Granularity | str | None = None,
    labels: str | Path | None = None,
    encoding: str | None = None,
    dayfirst: bool | None = None,
    date_format: str | None = None,
    date_language: str = "en",
    allow_unread_dates: bool = False,
    keep_placeholders: bool = False,
    sheet: str | None = None,
    format: str | None = None,
    max_unpacked: int | None = None,
    merge_names: bool = False,
    data_dir: str | Path | None = None,
    on_progress: Progress | None = None,
) -> TemporalKB:
    """Read a temporal KB.

    `source` is a benchmark's name (`yago11k`, `wikidata12k`, `icews14`, `icews05-15`), `sample`, a KB
    folder, a folder with train, valid and test files, a file (CSV, TSV, JSON lines, JSON, Parquet, Excel, ODS, HyTE
    text; each also `.gz`), a list of files, a DataFrame of pandas, polars or pyarrow, a mapping of columns, or rows:
    a list or generator of mappings {column: value} or of tuples (s, r, o[, begin[, end]]).

    For files and DataFrames: `subject` … `end` name the columns where their own names do not tell
    (`relation="=playsFor"` gives all rows one relation); with a begin and no end column each row is an
    event; `granularity` is `year`, `month` or `day` (detected if not given); `labels` is a file with a label
    for each id (of entities); `encoding` is that of text files that are not UTF-8; `sheet` names the sheet of a
    spreadsheet (else the first with data); `format` (`csv` …) is for a file whose suffix does not tell; a packed file
    may unpack to `max_unpacked` bytes (else to fifty times its size, or 64 MB). `merge_names` makes names one that
    differ by case, spaces or accents alone. `data_dir` is where benchmarks lie;
    `on_progress` is called with (done, total) in bytes while one is downloaded.

    Of dates (docs/dates.md): `dayfirst` says whether 1/2/1999 is in February (None: the other dates show it);
    `date_format` is a format such as `%d.%m.%y`, or `excel`, `unix`, `unix-ms`; `date_language` is that of the months
    (en, de, fr, es, it, pt, nl). If more than one date in ten cannot be read, that is an `UnreadableDatesError` unless
    `allow_unread_dates`. Dates that stand for no date, such as 9999-12-31, are set open unless `keep_placeholders`.

    >>> import polars as pl
    >>> table = pl.DataFrame({"who": ["Ada"], "what": ["bornIn"], "where": ["London"], "year": [1815]})
    >>> read(table, subject="who", relation="what", object="where")
    TemporalKB(table: 2 entities, 1 relation, train 1 facts, by year)
    >>> read([("Ada", "bornIn", "London", 1815), ("Ada", "diedIn", "London", 1852)])
    TemporalKB(table: 2 entities, 2 relations, train 2 facts, by year)
    """
    columns = Columns(subject, relation, object, begin, end)
    unit = _granularity(granularity)
    style = DateStyle(dayfirst, date_format, date_language, allow_unread_dates, keep_placeholders)
    opening = Opening(encoding, sheet, format, max_unpacked)
    options = Options(columns=columns, granularity=unit, merge_names=merge_names, style=style)
    if isinstance(source, str | os.PathLike):
        return _read_named(source, options, labels, opening, data_dir, on_progress)
    if isinstance(source, Sequence) and all(isinstance(part, str | os.PathLike) for part in source):
        return _with_labels(read_files([Path(part) for part in source], opening=opening, **options), labels)
    if opening != Opening():
        raise InputError("Encoding, sheet, format and max_unpacked are for files.", "Leave them out.")
    return _with_labels(from_table(_rows_of(source) if isinstance(source, Mapping) else source, **options), labels)


def _rows_of(columns: Mapping[Any, Any]) -> Iterator[dict[str, Any]]:
    """The rows of a mapping {column: values}."""
    names = [str(name) for name in columns]
    try:
        lengths = {len(values) for values in columns.values() if not isinstance(values, str)}
    except TypeError:
        lengths = set()
    if len(lengths) != 1 or any(isinstance(values, str) for values in columns.values()):
        raise InputError("The columns are not lists of the same length.", 'Give {"subject": ["Ada", …], …}.')
    return (dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True))


def _with_labels(kb: TemporalKB, labels: str | Path | None) -> TemporalKB:
    """The KB with the labels of a file for its entities, beside those that it has."""
    if labels is None:
        return kb
    return replace(kb, entities=Names(kb.entities.names, {**kb.entities.labels, **read_labels(Path(labels))}))


def _granularity(granularity: Granularity | str | None) -> Granularity | None:
    if granularity is None:
        return None
    try:
        return Granularity(granularity)
    except ValueError as error:
        raise InputError(f"{granularity!r} is not a granularity.", "Use year, month or day.") from error


def _read_named(
    source: str | os.PathLike[str],
    options: Options,
    labels: str | Path | None,
    opening: Opening,
    data_dir: str | Path | None,
    on_progress: Progress | None,
) -> TemporalKB:
    """A name or a path. Names come first: a folder of the same name is reached as ./name."""
    ready_made = source in benchmarks.BENCHMARKS or source == "sample"
    path = Path(source)
    kind = None if ready_made else _kind(source)
    if ready_made or kind == "KB":
        if labels or opening != Opening() or options != NO_OPTIONS:
            hint = "Columns, granularity, labels, encoding and the like are for files."
            raise InputError(f"{source} is a KB already.", hint)
        if source == "sample":
            return benchmarks.load_sample()
        if not ready_made:
            return store.load(path)
        return benchmarks.load(str(source), None if data_dir is None else Path(data_dir), progress=on_progress)
    if kind == "folder":
        if opening != Opening():
            hint = "Give its files one by one."
            raise InputError(f"{path} is a folder, whose files are read as they are.", hint)
        if not find_splits(path):
            raise InputError(
                f"{path} is a folder with neither a KB nor a train file.",
                "Give a file, or a folder that `timeplex import` made or that has train.txt, valid.txt, test.txt.",
            )
        return _with_labels(read_folder(path, **options), labels)
    return _with_labels(read_files([path], opening=opening, **options), labels)


def is_kb(source: str) -> bool:
    """Whether a name or path is that of a KB, a file of facts, or a folder with such files; not that of a run."""
    if source in benchmarks.BENCHMARKS or source == "sample":
        return True
    try:
        path, kind = Path(source), _kind(source)
    except (InputError, UnknownNameError):
        return False
    return kind != "folder" or bool(find_splits(path))


def _kind(source: str | os.PathLike[str]) -> str:
    """What lies at a path: KB, folder or file. Nothing at all is an error."""
    path = Path(source)
    try:
        if path == STANDARD_INPUT:
            return "file"
        if str(source) == "":  # which would be the current folder
            raise _unknown("")
        if store.is_kb_folder(path):
            return "KB"
        if path.is_dir():
            next(path.iterdir(), None)  # a folder that may not be listed shows itself here
            return "folder"
        if path.exists():
            return "file"
    except PermissionError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.", "Check its permissions.") from error
    except OSError:
        pass  # such as a name that is too long for any file
    raise _unknown(str(source))


def _unknown(source: str) -> UnknownNameError:
    names = [*benchmarks.BENCHMARKS, "sample"]
    hint = did_you_mean(source.lower(), names) or f"Known names are {', '.join(names)}."
    return UnknownNameError(f"{source!r} is neither a known KB nor a path that exists.", hint)
