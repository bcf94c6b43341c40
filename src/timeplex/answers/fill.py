"""Fill the holes of a table: missing objects, begins and ends, each with a probability and a reason.

What is missing decides what is asked, and what the probability means:

    the object        the best candidate at the row's dates that is not known to hold then; that it is the answer
    begin and end     the span of `when`; that it overlaps the true one
    one of them       the other end, see `ends`; that predicted and true span share at least half (IOU ≥ ½)

An end that is missing may mean that the fact still goes on: `still_going_on` is how likely the KB leaves such an end
open, and the predicted end is the end if it has one. Both share one distribution: an end is at most as likely as that
the fact has ended. What the KB states itself is the answer, and has no probability; only of a missing object that may
have company a further one is predicted. A row that cannot be asked stays empty and says why.

Rows are worked on in blocks: memory grows with the table alone, and the answer for a row depends on no other row.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import polars as pl

from timeplex.answers.ends import closes, own_facts
from timeplex.answers.rank import EntityQueries
from timeplex.answers.resolve import Hole, Reader, Rows
from timeplex.errors import InputError
from timeplex.kb import dates, spans
from timeplex.kb.readers import SourceTable, layout_of
from timeplex.kb.readers.rows import role_texts
from timeplex.kb.readers.table import Columns, Layout
from timeplex.kb.store import write_frame
from timeplex.patterns.base import Side, TimeQueries
from timeplex.typing import Floats, Ints

if TYPE_CHECKING:
    from timeplex.answers.learned import Learned


BLOCK = 2048
"""Rows that are worked on at a time."""

NONE = -1
"""No object is predicted."""

COMPANY = 0.5
"""Where fewer facts of a relation have company, what the KB states is the answer."""

FLOATS = ("probability", "still_going_on")


def fill(asked: "Learned", table: Any, columns: Columns, min_probability: float = 0.0) -> Any:
    """A DataFrame of pandas, polars or pyarrow with the predictions as further columns; the same kind comes back."""
    data, layout = layout_of(table, columns, "the table")
    added = fill_frame(asked, data, layout, min_probability)
    new = [
        nw.new_series(
            name,
            added[name].to_list(),
            nw.Float64 if name in FLOATS else nw.String,
            backend=data.implementation,
        )
        for name in added.columns
    ]
    return data.with_columns(*new).to_native()


def fill_frame(
    asked: "Learned",
    data: "nw.DataFrame[Any]",
    layout: Layout,
    min_probability: float = 0.0,
    source: str = "the table",
) -> pl.DataFrame:
    """The columns to add to a table, named after those that have the holes."""
    if not 0 <= min_probability <= 1:
        raise InputError(f"{min_probability} is not a probability.", "Give a number from 0 to 1.")
    names = [str(name) for name in data.columns]
    called = {role: _called(names, getattr(layout, role), role) for role in ("object", "begin", "end")}
    events = layout.begin is not None and layout.end is None
    roles = ("object", "begin") if events else ("object", "begin", "end")
    floats = FLOATS[:1] if events else FLOATS
    columns = [*(f"{called[role]}_predicted" for role in roles), *floats, "reason"]
    taken = [name for name in columns if name in names]
    if taken:
        raise InputError(f"{source} has a column {taken[0]!r} already.", "Rename it first.")
    texts = role_texts(data, layout, source)
    reader, filler = Reader(asked.asking), Filler(asked, min_probability)
    parts = [filler.fill(reader.read(texts[start : start + BLOCK])) for start in range(0, len(texts), BLOCK)]
    found = pl.concat(part.frame(asked) for part in parts)
    return found.select(
        pl.col(role).alias(name) for role, name in zip([*roles, *floats, "reason"], columns, strict=True)
    )


@dataclass(frozen=True)
class FillCounts:
    """What came of filling a table: values by new column, and why the other rows were left, most frequent first."""

    rows: int
    filled: int
    columns: dict[str, int]
    left: list[tuple[str, int]]

    @classmethod
    def of(cls, added: pl.DataFrame) -> "FillCounts":
        """Of the columns that were added."""
        is_filled = added.select(pl.any_horizontal(pl.col("^.*_predicted$").is_not_null()))[:, 0]
        columns = {name: int(added[name].count()) for name in added.columns if name.endswith("_predicted")}
        left = added.filter(~is_filled)["reason"].value_counts().sort("count", "reason", descending=[True, False])
        return cls(len(added), int(is_filled.sum()), columns, left.rows())


def fill_file(
    asked: "Learned",
    table: SourceTable,
    output: Path,
    min_probability: float = 0.0,
    *,
    source: str = "the table",
    formulas: bool = False,
) -> FillCounts:
    """Write the table of a file with the predictions as further columns."""
    frame = nw.from_native(table.frame, eager_only=True)
    added = fill_frame(asked, frame, table.layout, min_probability, source)
    write_frame(pl.concat([table.frame, added], how="horizontal"), output, table.separator, formulas=formulas)
    return FillCounts.of(added)


def _called(names: list[str], position: int | None, role: str) -> str:
    return role if position is None else names[position]


@dataclass(eq=False)
class Filled:
    """Predictions for rows, arrays (n,): numbers of objects, calendar instants (open where there is none), shares."""

    object: Ints
    begin: Ints
    end: Ints
    probability: Floats
    going_on: Floats
    reason: list[str]

    @classmethod
    def empty(cls, reason: list[str]) -> "Filled":
        """No prediction yet."""
        count = len(reason)
        begin, end = np.full(count, spans.OPEN_BEGIN, np.int64), np.full(count, spans.OPEN_END, np.int64)
        return cls(np.full(count, NONE), begin, end, np.full(count, np.nan), np.full(count, np.nan), list(reason))

    def state(self, row: int, rows: Rows, begin: int, end: int) -> None:
        """Take what the KB states for what a row lacks: with no probability."""
        if rows.begin[row] == spans.OPEN_BEGIN:
            self.begin[row] = begin
        if rows.end[row] == spans.OPEN_END:
            self.end[row] = end

    def take_back(self, row: int) -> None:
        """Predict nothing, because it is not likely enough."""
        self.object[row], self.begin[row], self.end[row] = NONE, spans.OPEN_BEGIN, spans.OPEN_END
        self.reason[row] = f"the best answer has a probability of only {self.probability[row]:.2f}"

    def frame(self, asked: "Learned") -> pl.DataFrame:
        """As texts and numbers, null where there is nothing."""
        entities, unit = asked.kb.entities, asked.kb.granularity

        def date(instants: Ints, missing: int) -> list[str | None]:
            written = dates.write(np.where(instants == missing, 0, instants), unit)
            return [None if open_ else text for text, open_ in zip(written, instants == missing, strict=True)]

        return pl.DataFrame(
            {
                "object": [None if number == NONE else entities[number] for number in self.object.tolist()],
                "begin": date(self.begin, spans.OPEN_BEGIN),
                "end": date(self.end, spans.OPEN_END),
                "probability": self.probability.round(4),
                "still_going_on": self.going_on.round(4),
                "reason": self.reason,
            },
            schema={**dict.fromkeys(("object", "begin", "end"), pl.String), **dict.fromkeys(FLOATS, pl.Float64)}
            | {"reason": pl.String},
        ).with_columns(pl.col(*FLOATS).fill_nan(None))


class Filler:
    """Asks a KB, or a run, about rows."""

    def __init__(self, asked: "Learned", min_probability: float = 0.0) -> None:
        self.asked, self.min_probability = asked, min_probability
        self.facts = asked.kb.facts
        self.has_dates = bool(self.facts.dated.any())

    def fill(self, rows: Rows) -> Filled:
        """The predictions for some rows."""
        found = Filled.empty(rows.reason)
        self._objects(rows, np.flatnonzero(rows.hole == Hole.OBJECT), found)
        if self.has_dates:
            self._dates(rows, found)
        else:
            for row in np.flatnonzero(rows.hole >= Hole.BEGIN).tolist():
                found.reason[row] = "no fact of the KB has a date"
        for row in np.flatnonzero(found.probability < self.min_probability).tolist():
            found.take_back(row)
        return found

    # Who ------------------------------------------------------------------------------------------------------------

    def _objects(self, rows: Rows, which: Ints, found: Filled) -> None:
        """What the KB states for that time, if such facts rarely have company; else the best that is not known."""
        if not len(which):
            return
        links, entities = self.asked.links, self.asked.kb.entities
        questions = self._questions(rows, which)
        stated = self._stated_objects(questions)
        alone = links.company.share["object"][questions.r] < COMPANY
        ranked, probability = links.rank(questions, 1, hide_known=True)
        for at, row in enumerate(which.tolist()):
            known = stated.get(at, [])
            told = [f"the KB has {', '.join(entities.label(each) for each in known)} already"] if known else []
            if known and alone[at]:
                found.object[row], found.reason[row] = known[0], told[0]
                continue
            found.object[row], found.probability[row] = ranked.entity[at, 0], probability[at, 0]
            if found.object[row] == NONE:
                found.probability[row] = np.nan
                found.reason[row] = "no entity is left that is not known already"
                continue
            one = questions.rows(slice(at, at + 1))
            told += self.asked.ranking_reasons(one, [int(found.object[row])])[0][:1]
            found.reason[row] = "; ".join(told) or "no single pattern tells more"

    def _questions(self, rows: Rows, which: Ints) -> EntityQueries:
        """Which object at the row's dates; where one end is missing, at the other."""
        first, last = self.asked.timeline.first, self.asked.timeline.last
        begin, end = rows.begin[which], rows.end[which]
        begin, end = np.where(begin == spans.OPEN_BEGIN, end, begin), np.where(end == spans.OPEN_END, begin, end)
        begin, end = (np.clip(each, first, last) for each in (begin, end))
        return EntityQueries("object", rows.s[which], rows.r[which], begin, end)

    def _stated_objects(self, questions: EntityQueries) -> dict[int, list[int]]:
        """Which objects the KB itself states for the time of each question."""
        known = self.asked.links.who.known
        query, fact, meets = known.of(questions)
        names: dict[int, list[int]] = {}
        for at, answer in zip(query[meets].tolist(), known.facts.o[fact[meets]].tolist(), strict=True):
            if answer not in names.setdefault(at, []):
                names[at].append(answer)
        return names

    # When -----------------------------------------------------------------------------------------------------------

    def _dates(self, rows: Rows, found: Filled) -> None:
        dated = np.flatnonzero(rows.hole >= Hole.BEGIN)
        columns = rows.s[dated], rows.r[dated], rows.o[dated], rows.begin[dated], rows.end[dated]
        stated, own = closes(self.facts, *columns), own_facts(self.facts, *columns)
        for row, fact in zip(dated[stated >= 0].tolist(), stated[stated >= 0].tolist(), strict=True):
            span = int(self.facts.begin[fact]), int(self.facts.end[fact])
            found.state(row, rows, *span)
            found.reason[row] = f"the KB has {self.asked.asking.span_text(*span)}"
        left, own = dated[stated < 0], own[stated < 0]
        queries = TimeQueries(rows.s[left], rows.r[left], rows.o[left], own)
        hole, ends = rows.hole[left], self.asked.ends
        for holes, side in ((Hole.BEGIN, "begin"), (Hole.END, "end")):
            self._other_end(side, rows, left[hole == holes], queries[hole == holes], found)  # type: ignore[arg-type]
        both = np.flatnonzero(hole == Hole.BOTH)
        if len(both):
            spanned = self.asked.dates.predict(queries[both])
            found.begin[left[both]], found.end[left[both]] = spanned.begin, spanned.end
            found.probability[left[both]] = spanned.probability
            found.going_on[left[both]] = ends.going_on(queries[both], spanned.begin)
        for at, row in enumerate(left.tolist()):
            found.reason[row] = "; ".join(self._why(rows, row, queries[at : at + 1], found))

    def _other_end(self, side: Side, rows: Rows, which: Ints, queries: TimeQueries, found: Filled) -> None:
        """One end, given the other."""
        if not len(which):
            return
        known = (rows.end if side == "begin" else rows.begin)[which]
        instant, right = self.asked.ends.other(queries, side, known)
        if side == "begin":
            found.begin[which], found.probability[which] = instant, right
            return
        going_on = self.asked.ends.going_on(queries, known)
        found.end[which], found.going_on[which] = instant, going_on
        found.probability[which] = (1 - going_on) * right

    def _why(self, rows: Rows, row: int, query: TimeQueries, found: Filled) -> list[str]:
        """At most two reasons for a predicted date, after what the KB states of the fact."""
        said, ends, hole = [], self.asked.ends, rows.hole[row]
        place, facts = self.facts.of_triples(query.s, query.r, query.o)
        if len(place) and hole != Hole.BEGIN:
            texts = [
                self.asked.asking.span_text(int(self.facts.begin[each]), int(self.facts.end[each])) for each in facts
            ]
            said.append(f"the KB has {', '.join(dict.fromkeys(sorted(texts)))}")
        begin = int(rows.begin[row] if hole == Hole.END else found.begin[row])
        end = int(rows.end[row] if hole == Hole.BEGIN else found.end[row])
        if hole != Hole.BEGIN and found.going_on[row] > 0.5:
            said.append("it probably still goes on; the end is that if it has ended")
        if hole == Hole.END:
            return said + (ends.reasons(query, begin, end, 2) or ["no single fact tells more"])
        span = max(end - begin, 1)
        window = (begin - span, min(begin + span, end) if hole == Hole.BEGIN else begin + span)
        s, r, o = int(query.s[0]), int(query.r[0]), int(query.o[0])
        told = self.asked.dating_reasons(s, r, o, begin, window, 2)
        if hole == Hole.BEGIN:
            told = [*told[:1], *ends.lasts(int(query.r[0]), end - begin)]
        return said + (told[:2] or ["no single fact tells more"])
