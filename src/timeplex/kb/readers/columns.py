"""Which column of a table plays which role: subject, relation, object, begin, end."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import polars as pl

from timeplex.errors import InputError
from timeplex.kb import spellings
from timeplex.kb.date_forms import iso
from timeplex.kb.dates import State
from timeplex.kb.spellings import DateStyle

KNOWN_NAMES = {
    "subject": ("subject", "s", "head", "h", "source", "person", "entity"),
    "relation": ("relation", "r", "predicate", "p", "property", "rel", "role"),
    "object": ("object", "o", "tail", "target", "value"),
    "begin": ("begin", "start", "started", "began", "from", "since", "time", "date", "year", "timestamp", "valid_from"),
    "end": ("end", "ended", "stop", "finish", "finished", "to", "until", "valid_to"),
}
"""Header names that are understood without being told, in lower case; `begin_date`, `start_time`,
`end year` and the like count as well."""

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
        return any(getattr(self, field.name) for field in fields(self))


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
    def positions(self) -> list[int]:
        """The positions that are used, in the order of the roles."""
        roles = (self.subject, self.relation, self.object, self.begin, self.end)
        return [position for position in roles if position is not None]


BY_POSITION = {3: Layout(0, 1, 2, None, None), 4: Layout(0, 1, 2, 3, None), 5: Layout(0, 1, 2, 3, 4)}
"""HyTE and ICEWS text has no header: s r o, s r o date, or s r o begin end."""


def _plain(name: str) -> str:
    name = name.strip().lower().replace(" ", "_")
    for ending in ("_date", "_time", "_year"):
        name = name.removesuffix(ending)
    return name


def _listed(header: Sequence[str]) -> str:
    """The columns on one line; what looks like a header may be a very long line of anything."""
    names = ", ".join(name if name.isprintable() else ascii(name) for name in header)
    return names if len(names) <= LIST_LENGTH else f"{names[:LIST_LENGTH]} …"


def by_header(header: Sequence[str], wanted: Columns, source: str) -> Layout:
    """The layout by the names in a header; a column that cannot be found is an error that lists them all."""
    plain = [_plain(name) for name in header]

    def find(role: str) -> int | None:
        own = getattr(wanted, role)
        if own is not None:
            if own in header:
                return list(header).index(own)
            raise InputError(f"{source} has no column {own!r}.", f"Its columns are: {_listed(header)}.")
        for name in KNOWN_NAMES[role]:
            if name in plain:
                return plain.index(name)
        return None

    named = wanted.relation or ""
    constant = named[1:] if named.startswith("=") else None
    found = {role: find(role) for role in KNOWN_NAMES if role != "relation" or constant is None}
    missing = [role for role in ("subject", "relation", "object") if role in found and found[role] is None]
    subject, object_ = found["subject"], found["object"]
    if missing or subject is None or object_ is None:
        options = ", ".join(f"--{role} COLUMN" for role in missing)
        raise InputError(
            f"{source} has no column for the {', the '.join(missing)}.",
            f"Its columns are: {_listed(header)}. Say which {'it is' if len(missing) == 1 else 'they are'}: {options}.",
        )
    layout = Layout(
        subject=subject,
        relation=found.get("relation"),
        object=object_,
        begin=found["begin"],
        end=found["end"],
        constant_relation=constant,
    )
    if len(set(layout.positions)) < len(layout.positions):
        raise InputError(
            f"Two roles of {source} would be read from one column.",
            f"Its columns are: {_listed(header)}. Name them with --subject, --relation, --object, --begin, --end.",
        )
    return layout


def find_layout(first_row: Sequence[str], wanted: Columns, source: str) -> tuple[Layout, bool]:
    """The layout of a table of text by its first row, and whether that row is a header.

    It is one if the user named columns, if it holds usual names for subject, relation and object (and no
    date, for these may be the names of a fact), or if the table does not look like the headerless
    s r o [begin [end]].
    """
    plain = {_plain(name) for name in first_row}
    usual = all(plain & set(KNOWN_NAMES[role]) for role in ("subject", "relation", "object"))
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
    in_words = spellings.parse(column, DateStyle(dayfirst=True)).state == State.KNOWN
    numeric = column.str.contains(r"^\s*[0-9][0-9 /.:-]*$").to_numpy()  # 36525 and 31/12/99 need an option
    return len(column) == 0 or bool((as_in_files | in_words | numeric).any())
