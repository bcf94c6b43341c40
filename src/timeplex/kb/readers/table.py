"""What every reader hands on: rows of text with their line numbers, and the rows it could not use."""

import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import polars as pl

from timeplex.errors import InputError
from timeplex.kb import date_spellings
from timeplex.kb.date_forms import iso
from timeplex.kb.date_spellings import DateStyle
from timeplex.kb.dates import State
from timeplex.kb.problems import Log

ROLES = ("subject", "relation", "object", "begin", "end")


@dataclass(frozen=True)
class Table:
    """Rows of one source before they are facts.

    `rows` has the columns line, subject, relation, object and, where the source has them, begin and end,
    all text (nulls allowed) but for the line. With begin and no end column each row is an event. `raw`
    gives the original text of the rows at given positions of `rows` (ascending; a long one may be cut after what a
    problem shows). `log` has the rows that could not be used: rows_read = height + log.rows at first. `unused` are the
    columns that play no role, `doubled` the names that more than one column has.
    """

    source: str
    split: str
    rows: pl.DataFrame
    raw: Callable[[Sequence[int]], list[str]]
    log: Log
    unused: tuple[str, ...] = ()
    doubled: tuple[str, ...] = ()
    rows_read: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows_read", self.rows.height + self.log.rows)

    @classmethod
    def empty(cls, source: str, split: str) -> Self:
        """The table of a source that has no row at all."""
        schema = {"line": pl.Int64, **dict.fromkeys(ROLES, pl.String)}
        return cls(source, split, pl.DataFrame(schema=schema), lambda positions: [], Log(source))

    @property
    def events(self) -> bool:
        """Whether each row has one date, which is begin and end."""
        return "begin" in self.rows.columns and "end" not in self.rows.columns


_NAMES = tomllib.loads(Path(__file__).with_name("column_names.toml").read_text("utf-8"))
KNOWN_NAMES = {role: tuple(names.split()) for role, names in _NAMES.items()}
"""Header names that are understood without being told, by preference; no name stands for two roles.

Case, spaces, underscores, hyphens and camelCase do not matter, and `begin_date`, `startTime`, `year-from` and the
like count as well."""

_ROLE_OF = {name: role for role, names in KNOWN_NAMES.items() for name in names}

MOST_COLUMNS = 10_000
"""A table with more columns than this is not one of facts."""

LIST_LENGTH = 300
"""Characters of a list of columns that a message shows."""


@dataclass(frozen=True)
class Columns:
    """The user's own names of the columns; None means: find it by a usual name.

    `relation` may also be a constant for a table that holds one relation: `=playsFor`.
    """

    subject: str | None = None
    relation: str | None = None
    object: str | None = None
    begin: str | None = None
    end: str | None = None

    @property
    def given(self) -> bool:
        """Whether any column was named by the user."""
        return any(vars(self).values())


USUAL_NAMES = Columns()


@dataclass(frozen=True)
class Layout:
    """Where the roles are: positions of columns; None where a role has no column."""

    subject: int
    relation: int | None
    object: int
    begin: int | None
    end: int | None
    constant_relation: str | None = None

    @property
    def by_role(self) -> dict[str, int]:
        """The position of each role that has a column."""
        return {role: at for role in ROLES if (at := getattr(self, role)) is not None}

    @property
    def positions(self) -> list[int]:
        """The positions that are used, in the order of the roles."""
        return list(self.by_role.values())


BY_POSITION = {3: Layout(0, 1, 2, None, None), 4: Layout(0, 1, 2, 3, None), 5: Layout(0, 1, 2, 3, 4)}
"""HyTE and ICEWS text has no header: s r o, s r o date, or s r o begin end."""


def _plain(name: str) -> str:
    """A name of a column as `KNOWN_NAMES` has it, if it does."""
    plain = "".join(name.split()).replace("_", "").replace("-", "").lower()
    readings = [plain]
    for word in ("date", "time", "year"):
        readings += [plain.removesuffix(word), plain.removeprefix(word)]
    return next((reading for reading in readings if reading in _ROLE_OF), plain)


def is_candidate(name: str, wanted: Columns) -> bool:
    """Whether a column may play a role, by its name alone."""
    return name in vars(wanted).values() or _plain(name) in _ROLE_OF


def unused(header: Sequence[str], layout: Layout) -> tuple[str, ...]:
    """The columns that play no role."""
    used = set(layout.positions)
    return tuple(name for at, name in enumerate(header) if at not in used and name.strip())


def doubled(header: Sequence[str]) -> tuple[str, ...]:
    """The names that more than one column has."""
    return tuple(name for name, times in Counter(header).items() if times > 1 and name.strip())


def role_columns(texts: dict[int, pl.Series], layout: Layout, height: int) -> pl.DataFrame:
    """The columns that play a role, by its name, given the texts of each position that is used."""
    columns = {role: texts[at] for role, at in layout.by_role.items()}
    if layout.constant_relation is not None:
        columns["relation"] = pl.Series([layout.constant_relation]).new_from_index(0, height)
    return pl.DataFrame(columns)


def _listed(header: Sequence[str]) -> str:
    """The columns on one line; what looks like a header may be a very long line of anything."""
    names = ", ".join(name if name.isprintable() else ascii(name) for name in header)
    return names if len(names) <= LIST_LENGTH else f"{names[:LIST_LENGTH]} …"


def by_header(header: Sequence[str], wanted: Columns, source: str) -> Layout:
    """The layout by the names in a header; a column that cannot be found is an error that lists them all."""
    if len(header) > MOST_COLUMNS:
        raise InputError(
            f"{source} has {len(header):,} columns, more than {MOST_COLUMNS:,}.",
            "Give a table with one fact a row; text with a separator in it needs quotes.",
        )
    plain = [_plain(name) for name in header]
    claimed = {getattr(wanted, role) for role in KNOWN_NAMES}

    def find(role: str) -> int | None:
        own = getattr(wanted, role)
        if own is not None:
            if own in header:
                return list(header).index(own)
            raise InputError(f"{source} has no column {own!r}.", f"Its columns are: {_listed(header)}.")
        usual = [at for name in KNOWN_NAMES[role] for at, found in enumerate(plain) if found == name]
        return next((at for at in usual if header[at] not in claimed), usual[0] if usual else None)

    named = wanted.relation or ""
    constant = named[1:] if named.startswith("=") else None
    found = {role: find(role) for role in KNOWN_NAMES if role != "relation" or constant is None}
    missing = [role for role in ("subject", "relation", "object") if role in found and found[role] is None]
    subject, object_ = found["subject"], found["object"]
    if missing or subject is None or object_ is None:
        raise _missing(header, missing, source)
    layout = Layout(subject, found.get("relation"), object_, found["begin"], found["end"], constant)
    if len(set(layout.positions)) < len(layout.positions):
        columns = f"Its columns are: {_listed(header)}. Name them with"
        raise InputError(
            f"Two roles of {source} would be read from one column.",
            f"{columns} subject=, relation=, object=, begin=, end=.",
            f"{columns} --subject, --relation, --object, --begin, --end.",
        )
    return layout


def _missing(header: Sequence[str], missing: Sequence[str], source: str) -> InputError:
    """The error that some roles have no column, with what to write in Python and on the command line."""
    columns = f"Its columns are: {_listed(header)}. Say which {'it is' if len(missing) == 1 else 'they are'}:"
    arguments = ", ".join(f'{role}="COLUMN"' for role in missing)
    options = ", ".join(f"--{role} COLUMN" for role in missing)
    one = "for a table of one relation" if "relation" in missing else ""
    return InputError(
        f"{source} has no column for the {', the '.join(missing)}.",
        f"{columns} {arguments}" + (f'; {one}, relation="=NAME".' if one else "."),
        f"{columns} {options}" + (f"; {one}, --relation =NAME." if one else "."),
    )


def find_layout(first_row: Sequence[str], wanted: Columns, source: str) -> tuple[Layout, bool]:
    """The layout of a table of text by its first row, and whether that row is a header.

    It is one if the user named columns, if it holds usual names for subject, relation and object (and no
    date, for these may be the names of a fact), if of three columns two have usual names of more than a letter
    (`player,club,joined`), or if the table does not look like the headerless s r o [begin [end]].
    """
    plain = {_plain(name) for name in first_row[:MOST_COLUMNS]}
    usual = all(plain & set(KNOWN_NAMES[role]) for role in ("subject", "relation", "object"))
    words = {name for name in plain if len(name) > 1}
    usual |= len(first_row) == 3 and sum(bool(words & set(names)) for names in KNOWN_NAMES.values()) >= 2
    stated = [text for text in first_row[3:] if text.strip()]
    layout = BY_POSITION.get(len(first_row))
    if wanted.given or layout is None or (usual and not stated) or not _dated(stated):
        return by_header(first_row, wanted, source), True
    return layout, False


def _dated(texts: Sequence[str]) -> bool:
    """Whether there is no text or at least one is a date or `####` (an unreadable one beside it is forgiven).

    Words such as *current* or *to date* stand for an open end, but they may be the name of a column as well.
    """
    column = pl.Series(list(texts), dtype=pl.String)
    as_in_files = iso(column.str.strip_chars()).state != State.UNREADABLE
    in_words = date_spellings.parse(column, DateStyle(dayfirst=True)).state == State.KNOWN
    numeric = column.str.contains(r"^\s*[0-9][0-9 /.:-]*$").to_numpy()  # 36525 and 31/12/99 need an option
    return len(column) == 0 or bool((as_in_files | in_words | numeric).any())
