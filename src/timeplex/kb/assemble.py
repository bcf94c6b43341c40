"""From rows of text to a `TemporalKB`: dates become instants, names become numbers, oddities problems.

All tables are handled as one frame, and dates and names by their distinct texts, so that the work on a row
is a few array operations.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import polars as pl
from numpy.typing import NDArray

from timeplex.errors import InputError
from timeplex.kb import date_spellings, dates, spans
from timeplex.kb.date_forms import iso
from timeplex.kb.date_spellings import USUAL, DateStyle, Decided, placeholders
from timeplex.kb.dates import Dates, Granularity, State
from timeplex.kb.facts import SPLITS, Facts, TemporalKB, pair_key
from timeplex.kb.names import Alike, Names, best_spellings, encode
from timeplex.kb.problems import BOTH_ENDS, SCHEMA, Action, Kind, Problems
from timeplex.text import counted
from timeplex.typing import Bools, Codes, Ints

if TYPE_CHECKING:
    from timeplex.kb.readers.table import Table

NAMED = ("subject", "relation", "object")

FAR = 8.0
"""An instant is implausible if it is this many times as far from the median as the outermost twentieth."""


class Making(TypedDict, total=False):
    """What may be said of tables that become a KB; see `assemble`."""

    granularity: Granularity | None
    style: DateStyle
    merge_names: bool


def assemble(
    tables: Sequence["Table"],
    *,
    name: str,
    granularity: Granularity | None = None,
    entity_labels: dict[str, str] | None = None,
    relation_labels: dict[str, str] | None = None,
    style: DateStyle = USUAL,
    merge_names: bool = False,
) -> TemporalKB:
    """The KB of all tables. The granularity is detected from the dates if not given.

    With `merge_names` the names that differ by case, spaces or accents alone become one, spelled as most often.
    """
    rows = _Rows(tables)
    ((s, o), entities), ((r,), relations), *date_columns = _encode(rows)
    if len(entities) == 0:
        raise rows.no_fact(name)
    parsed, decided = date_spellings.parse_together([texts for _, texts in date_columns], style)
    both = [
        _DateColumn(role, texts, of, codes)
        for role, ((codes,), texts), of in zip(("begin", "end"), date_columns, parsed, strict=True)
    ]
    _judge_unread(rows, both, style)
    if not style.keep_placeholders:
        _open_placeholders(rows, both)
    (s, o), entities, alike = _spelled(rows, entities, {"subject": s, "object": o}, merge_names)
    (r,), relations, alike_too = _spelled(rows, relations, {"relation": r}, merge_names)
    granularity = granularity or dates.detect_granularity(sum(column.precisions() for column in both))
    _note_decision(rows, both, decided, granularity)
    first, last = _spans(rows, (s, r, o), both, granularity)
    _report_implausible(rows, both, (first, last), granularity)
    facts = Facts(s, r, o, first.astype(np.int32), last.astype(np.int32), source=rows.source)
    chosen = _first_copies(rows, facts)
    splits = {
        split: facts if (mine := chosen & (rows.split == number)).all() else facts[np.flatnonzero(mine)]
        for number, split in enumerate(SPLITS)
        if split == "train" or any(table.split == split for table in tables)
    }
    return TemporalKB(
        Names(entities, entity_labels),
        Names(relations, relation_labels),
        granularity,
        splits,
        replace(rows.problems(), alike=alike + alike_too),
        name,
        tuple(table.source for table in tables),
    )


class _Rows:
    """The rows of all tables as one frame, and the problems met so far."""

    def __init__(self, tables: Sequence["Table"]) -> None:
        self.tables = tables
        self.notes: list[str] = []
        # An event has one date, which is its begin and its end.
        self.frame = pl.concat(
            [
                table.rows.select(
                    pl.lit(number, pl.Int32).alias("table"),
                    pl.int_range(pl.len(), dtype=pl.Int32).alias("position"),
                    pl.col("subject", "relation", "object").fill_null(""),
                    begin=_date(table, "begin"),
                    end=_date(table, "begin" if table.events else "end"),
                )
                for number, table in enumerate(tables)
            ]
        )

    @property
    def split(self) -> Ints:
        """Number in `SPLITS` of each row's split."""
        return np.array([SPLITS.index(table.split) for table in self.tables]).take(self.frame["table"])

    @property
    def is_event(self) -> Bools:
        """Which rows come from a table with one date a row."""
        return np.array([table.events for table in self.tables]).take(self.frame["table"])

    @property
    def source(self) -> Ints:
        """The file and the line of each row, as `Facts` keeps them."""
        of, position = self.frame["table"].to_numpy(), self.frame["position"].to_numpy()
        line = np.zeros(len(of), np.int64)
        for number, table in enumerate(self.tables):
            mine = of == number
            line[mine] = table.rows["line"].to_numpy()[position[mine]]
        return pair_key(of, line)

    def report(
        self,
        wrong: Bools,
        kind: Kind,
        action: Action,
        fields: str | list[str],
        reasons: list[str],
        facts: Facts | None = None,
    ) -> None:
        """Add a problem for each row where `wrong`; reasons, facts (and fields, if a list) are one a wrong row."""
        at = np.flatnonzero(wrong)
        origin = self.frame[at, ["table", "position"]]
        for number, table in enumerate(self.tables):
            mine = np.flatnonzero(origin["table"].to_numpy() == number)
            if len(mine) == 0:
                continue
            positions = origin["position"].gather(mine).to_list()
            lines = table.rows["line"].gather(positions).to_list()
            field = fields if isinstance(fields, str) else [fields[row] for row in mine]
            because = [reasons[row] for row in mine]
            about = None if facts is None else facts[mine]
            table.log.add(lines, kind, action, field, because, table.raw(positions), about)

    def listed(self, wrong: Bools, kind: Kind, action: Action, field: str = "") -> Bools:
        """The wrong rows that are to be reported; those for which a file's log has no room are counted in it."""
        told = wrong.copy()
        at = np.flatnonzero(wrong)
        of = self.frame["table"].to_numpy()[at]
        for number, table in enumerate(self.tables):
            mine = at[of == number]
            room = table.log.room(kind)
            told[mine[room:]] = False
            table.log.count(kind, action, field, len(mine[room:]))
        return told

    def keep(self, chosen: Bools) -> None:
        """Drop the rows that are not chosen (they have been reported)."""
        self.frame = self.frame.filter(pl.Series(chosen))

    def problems(self) -> Problems:
        """All problems in the order of the input."""
        frame = pl.concat([SCHEMA.to_frame(), *(frame for table in self.tables for frame in table.log.frames)])
        place = {table.source: number for number, table in enumerate(self.tables)}
        order = pl.col("file").replace_strict(place, return_dtype=pl.Int64)
        frame = frame.sort(order, "line", maintain_order=True)
        return Problems(
            frame,
            sum(table.rows_read for table in self.tables),
            tuple(more for table in self.tables for more in table.log.unlisted),
            tuple(dict.fromkeys(name for table in self.tables for name in table.unused)),
            tuple(dict.fromkeys(name for table in self.tables for name in table.doubled)),
            notes=tuple(self.notes),
        )

    def no_fact(self, name: str) -> InputError:
        """The error that no row could be used, with the first reason."""
        first = self.problems().frame.row(0, named=True)
        hint = f"The first problem is in line {first['line']}: {first['reason']}."
        return InputError(f"No row of {name} is a fact.", hint)


def _date(table: "Table", role: str) -> pl.Expr:
    return pl.col(role).fill_null("") if role in table.rows.columns else pl.lit("")


def _encode(rows: _Rows) -> list[tuple[list[Codes], pl.Series]]:
    """Numbers and distinct texts of entities, relations, begins and ends; rows without a name are set aside."""
    # Most names that are missing are of no length, which is cheap to see and leaves fewer rows to encode.
    missing = pl.any_horizontal(pl.col(NAMED).str.len_bytes() == 0)
    _set_aside_empty(rows, rows.frame.select(missing).to_series().to_numpy())
    groups = (("subject", "object"), ("relation",), ("begin",), ("end",))
    encoded = encode(rows.frame, *groups)
    ((s, o), entities), ((r,), relations) = encoded[:2]
    # Nothing but white space is empty, too. (Names themselves are never stripped.)
    blank_entity, blank_relation = ((names.str.strip_chars() == "").to_numpy() for names in (entities, relations))
    if blank_entity.any() or blank_relation.any():
        _set_aside_empty(rows, blank_entity[s] | blank_relation[r] | blank_entity[o])
        encoded = encode(rows.frame, *groups)
    rows.frame = rows.frame.select("table", "position")  # the texts have done their work
    return encoded


def _set_aside_empty(rows: _Rows, wrong: Bools) -> None:
    """Set rows aside in which a name is missing."""
    if not wrong.any():
        return
    told = rows.listed(wrong, Kind.EMPTY_FIELD, Action.SET_ASIDE)
    texts = rows.frame[np.flatnonzero(told), list(NAMED)]
    empty = texts.select(pl.all().str.strip_chars() == "").iter_rows()
    fields = [" and ".join(name for name, is_empty in zip(NAMED, row, strict=True) if is_empty) for row in empty]
    rows.report(told, Kind.EMPTY_FIELD, Action.SET_ASIDE, fields, [f"the {field} is empty" for field in fields])
    rows.keep(~wrong)


def _spelled(
    rows: _Rows, names: pl.Series, columns: Mapping[str, Codes], merge: bool
) -> tuple[list[Codes], pl.Series, Alike]:
    """Numbers and names of some columns with names that are alike made one, if they are to be; and what is alike."""
    times = sum(np.bincount(codes, minlength=len(names)) for codes in columns.values())
    best, alike = best_spellings(names, np.asarray(times))
    if not merge or alike.groups == 0:
        return list(columns.values()), names, alike
    for role, codes in columns.items():
        told = rows.listed(best[codes] != codes, Kind.OTHER_SPELLING, Action.REPAIRED, role)
        pairs = zip(codes[told].tolist(), best[codes[told]].tolist(), strict=True)
        reasons = [f"the {role} {names[old]!r} was read as {names[new]!r}" for old, new in pairs]
        rows.report(told, Kind.OTHER_SPELLING, Action.REPAIRED, role, reasons)
    kept, number = np.unique(best, return_inverse=True)
    return [number[codes].astype(np.int32) for codes in columns.values()], names.gather(kept), Alike()


@dataclass(frozen=True)
class _DateColumn:
    """A column of dates, begins or ends: each distinct text parsed once, and which of them each row has."""

    role: str
    texts: pl.Series
    parsed: dates.Dates
    codes: Codes

    @property
    def counts(self) -> Ints:
        """How many rows have each distinct text."""
        return np.bincount(self.codes, minlength=len(self.texts))

    def precisions(self) -> Ints:
        """How many rows state nothing, the year, the month, the day. Shape (4,)."""
        return np.bincount(self.parsed.precision, weights=self.counts, minlength=4).astype(np.int64)

    def rows_of(self, wanted: Bools) -> Bools:
        """Which rows have one of the distinct dates that are wanted."""
        return wanted[self.codes] if wanted.any() else np.zeros(len(self.codes), bool)

    def place(self, granularity: Granularity, otherwise: int) -> tuple[Ints, Ints]:
        """First and last instant of each row's date, `otherwise` where it is not known."""
        known = self.parsed.state == State.KNOWN
        first, last = (np.where(known, ends, otherwise) for ends in dates.place(self.parsed, granularity))
        return first[self.codes], last[self.codes]

    def text(self, row: int) -> str:
        """A row's date as it stood in the source, without the blanks around it."""
        return str(self.texts[int(self.codes[row])]).strip()

    def plain(self, row: int) -> str:
        """A row's date as it stood if it is written as files do, otherwise so that it can be read by itself."""
        text = self.text(row)
        read = self.parsed[self.codes[[row]]]
        return text if iso(pl.Series([text])).state[0] == State.KNOWN else _in_digits(read)


def _in_digits(read: Dates) -> str:
    """One date as `1999-03-31`, `1999-03`, `1850/1859` or `1901/..`."""
    unit = (Granularity.YEAR, Granularity.MONTH, Granularity.DAY)[max(int(read.precision[0]), 1) - 1]
    first, last = dates.place(read, unit)
    if last[0] == spans.OPEN_END:
        return f"{dates.write(first, unit)[0]}/.."
    if first[0] == spans.OPEN_BEGIN:
        return f"../{dates.write(last, unit)[0]}"
    return "/".join(dict.fromkeys(dates.write([first[0], last[0]], unit)))


def _judge_unread(rows: _Rows, columns: Sequence[_DateColumn], style: DateStyle) -> None:
    """Refuse the tables (or just say so, if that is allowed) if too many of their dates cannot be read."""
    found: Counter[str] = Counter()
    stated = 0
    for column in columns:
        once = column.role == "begin" or ~rows.is_event  # the one date of an event counts once
        counts = np.bincount(
            column.codes, weights=np.broadcast_to(once, len(column.codes)), minlength=len(column.texts)
        )
        stated += int(counts[column.parsed.state != State.OPEN].sum())
        for at in np.flatnonzero((column.parsed.state == State.UNREADABLE) & (counts > 0)).tolist():
            found[str(column.texts[at])] += int(counts[at])
    if found.total() <= date_spellings.MOST_UNREAD * stated:
        return
    if not style.allow_unread:
        raise date_spellings.refusal(stated, date_spellings.shapes(found))
    rows.notes.append(date_spellings.sentence(stated, date_spellings.shapes(found)) + " They were taken as open.")


def _open_placeholders(rows: _Rows, columns: Sequence[_DateColumn]) -> None:
    """Report dates that stand for no date, and take them as open."""
    chosen = placeholders([(column.parsed, column.counts) for column in columns])
    if not any(mask.any() for mask in chosen):
        return
    if rows.is_event.any():  # whose date is at both ends
        both = {text for column, mask in zip(columns, chosen, strict=True) for text in column.texts.filter(mask)}
        chosen = [column.texts.is_in(list(both)).to_numpy() for column in columns]
    for column, mask in zip(columns, chosen, strict=True):
        wrong = column.rows_of(mask)
        number = dict(zip(column.texts, column.counts.tolist(), strict=True))
        for text in column.texts.filter(pl.Series(mask)):
            rows.notes.append(
                f"{counted(number[text], column.role)} of {len(wrong):,} are {text.strip()}, which stands for no date: "
                "they were set open (--keep-placeholders keeps them)."
            )
        said = "stands for no date; it was set open"
        _report_dates(rows, column, wrong, Kind.PLACEHOLDER, Action.REPAIRED, said)
        column.parsed.mark(mask, State.OPEN)


def _note_decision(rows: _Rows, columns: Sequence[_DateColumn], decided: Decided, granularity: Granularity) -> None:
    """Say what the dates as a whole showed of how they are written."""
    style, example = decided.style, decided.shown_by
    if style.format == "excel" and example:
        day = dates.write(date_spellings.parse(pl.Series([example]), style).first, Granularity.DAY)[0]
        rows.notes.append(f"Numbers such as {example} were read as the days of a spreadsheet: {day}.")
        return
    unclear = [date_spellings.either_first(column.texts) for column in columns]
    if not any(mask.any() for mask in unclear):
        return
    text = min(text for column, mask in zip(columns, unclear, strict=True) for text in column.texts.filter(mask))
    which, other = ("day", "month") if style.dayfirst else ("month", "day")
    if decided.contradicting:
        rows.notes.append(
            f"Some dates have the day first and others the month, so {text} was not read: "
            "use --dayfirst or --monthfirst."
        )
    elif decided.assumed and granularity is not Granularity.YEAR:
        rows.notes.append(
            f"Nothing shows whether {text} has the day or the month first: the {which} was taken "
            f"(--{other}first reads the {other})."
        )
        for column, mask in zip(columns, unclear, strict=True):
            wrong, said = (
                column.rows_of(mask & (column.parsed.state == State.KNOWN)),
                f"was read with the {which} first",
            )
            _report_dates(rows, column, wrong, Kind.AMBIGUOUS_DATE, Action.KEPT, said)
    elif example:
        rows.notes.append(f"Dates such as {text} were read with the {which} first, as {example} shows.")


def _report_dates(
    rows: _Rows, column: _DateColumn, wrong: Bools, kind: Kind, action: Action, said: str | Callable[[int], str]
) -> None:
    """Report the dates of some rows, those of events once; `said`, of all or of a row, is what is the matter."""
    if not wrong.any():
        return
    events, role = rows.is_event, column.role
    if role == "end":
        wrong = wrong & ~events  # the one date of an event is reported with its begin
    wrong = rows.listed(wrong, kind, action, role)
    at = np.flatnonzero(wrong).tolist()
    fields = [BOTH_ENDS if events[row] else role for row in at]
    told = [said if isinstance(said, str) else said(row) for row in at]
    reasons = [
        f"the {'date' if events[row] else role} {column.text(row)!r} {what}" for row, what in zip(at, told, strict=True)
    ]
    rows.report(wrong, kind, action, fields, reasons)


def _report_odd(rows: _Rows, column: _DateColumn) -> None:
    """Report what cannot be read, does not say the year, is approximate, or may be in one of several years."""

    def unreadable(row: int) -> str:
        option = date_spellings.suggest(column.text(row))
        return f"is not a date{f' (try {option})' if option else ''}; it was taken as open"

    def uncertain(row: int) -> str:
        read = column.parsed[column.codes[[row]]]
        first, _, last = _in_digits(read).partition("/")
        time = f"any time from {first} to {last}"
        time = f"any time up to {last}" if first == ".." else f"any time from {first}" if last == ".." else time
        if rows.is_event[row]:
            return f"may be {time}; the fact spans all of it"
        side, end = ("first", first) if column.role == "begin" else ("last", last)
        taken = "it was taken as open" if end == ".." else f"the {side} was taken"
        return f"may be {time}; {taken}"

    years = dates.place(column.parsed, Granularity.YEAR)
    state = column.parsed.state
    kinds: tuple[tuple[Bools, Kind, str | Callable[[int], str]], ...] = (
        (state == State.UNREADABLE, Kind.UNREADABLE_DATE, unreadable),
        (state == State.UNKNOWN_YEAR, Kind.UNKNOWN_YEAR, "does not say the year; it was taken as open"),
        (column.parsed.approximate, Kind.APPROXIMATE_DATE, "is approximate; it was taken as written"),
        ((state == State.KNOWN) & (years[0] < years[1]), Kind.UNCERTAIN_DATE, uncertain),
    )
    for wanted, kind, said in kinds:
        _report_dates(rows, column, column.rows_of(wanted), kind, Action.KEPT, said)


def _spans(
    rows: _Rows, triples: tuple[Codes, Codes, Codes], columns: Sequence[_DateColumn], granularity: Granularity
) -> tuple[Ints, Ints]:
    """Begin and end instants of the rows; reports and mends what is wrong with them."""
    for column in columns:
        _report_odd(rows, column)
    begin, end = columns
    first, end_of_begin = begin.place(granularity, spans.OPEN_BEGIN)
    _, last = end.place(granularity, spans.OPEN_END)
    reversed_ = first > last
    if reversed_.any():
        told = rows.listed(reversed_, Kind.BEGIN_AFTER_END, Action.REPAIRED, "end")
        reasons = [
            f"it begins {begin.plain(row)} and ends {end.plain(row)}; the end was set to the begin"
            for row in np.flatnonzero(told).tolist()
        ]
        as_read = Facts(*(column[told].astype(np.int32) for column in (*triples, first, last)))
        rows.report(told, Kind.BEGIN_AFTER_END, Action.REPAIRED, "end", reasons, as_read)
        last = np.where(reversed_, end_of_begin, last)
    return first, last


def _report_implausible(
    rows: _Rows, columns: Sequence[_DateColumn], span: tuple[Ints, Ints], granularity: Granularity
) -> None:
    """Report dates far outside the mass of the data, given both columns and the instants made of them."""
    distinct = [dates.place(column.parsed, granularity) for column in columns]
    places = [np.where(first == spans.OPEN_BEGIN, last, first) for first, last in distinct]
    counts = [column.counts for column in columns]
    known = np.concatenate([column.parsed.state == State.KNOWN for column in columns])
    low, high = plausible_range(np.concatenate(places)[known], np.concatenate(counts)[known], granularity)
    suggested = " to ".join(dates.write([low, high], granularity))
    for column, instants, place in zip(columns, span, places, strict=True):
        suspect = (column.parsed.state == State.KNOWN) & ((place < low) | (place > high))
        if not suspect.any():
            continue
        far = suspect[column.codes]
        if column.role == "end":
            # An event is reported once, and an end that was set to its begin is not there any more.
            far &= span[0] != span[1]
        far &= (instants != spans.OPEN_BEGIN) & (instants != spans.OPEN_END)
        far = rows.listed(far, Kind.IMPLAUSIBLE, Action.KEPT, column.role)
        reasons = [
            f"the {column.role} {text} is far from the other dates, which suggest {suggested}"
            for text in dates.write(instants[far], granularity)
        ]
        rows.report(far, Kind.IMPLAUSIBLE, Action.KEPT, column.role, reasons)


def plausible_range(instants: Ints, counts: Ints, granularity: Granularity) -> tuple[int, int]:
    """The range outside of which an instant is implausible: `FAR` times the spread on either side.

    The spread is the distance of the median to the 5 % and the 95 % quantile, but at least ten years.
    `counts` says how often each instant occurs.
    """
    if len(instants) == 0:
        return 0, 0
    order = np.argsort(instants, kind="stable")
    share = np.cumsum(counts[order]) / counts.sum()
    low, middle, high = instants[order][np.searchsorted(share, [0.05, 0.5, 0.95])]
    least = 10 * {Granularity.YEAR: 1, Granularity.MONTH: 12, Granularity.DAY: 365}[granularity]
    return int(middle - FAR * max(middle - low, least)), int(middle + FAR * max(high - middle, least))


def _first_copies(rows: _Rows, facts: Facts) -> Bools:
    """Which rows are the first of their fact in their split; later copies are reported and set aside."""
    columns: list[NDArray[Any]] = [rows.split, *facts.columns]
    # Comparing rows in full is slow: only those are compared whose hash occurs twice.
    hashes = pl.DataFrame({f"{at}": column for at, column in enumerate(columns)}).hash_rows()
    ordered = np.sort(hashes.to_numpy())
    twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    alike = np.flatnonzero(hashes.is_in(pl.Series(twice).implode()).to_numpy()) if len(twice) else twice
    first = np.ones(len(facts), bool)
    if len(alike) == 0:
        return first
    order = alike[np.lexsort([column[alike] for column in columns])]  # equal ones stay in the order of the rows
    same = np.logical_and.reduce([column[order][1:] == column[order][:-1] for column in columns])
    first[order[1:][same]] = False
    told = rows.listed(~first, Kind.DUPLICATE, Action.SET_ASIDE)
    reasons = ["the same fact stands in an earlier row"] * int(told.sum())
    rows.report(told, Kind.DUPLICATE, Action.SET_ASIDE, "", reasons)
    return first
