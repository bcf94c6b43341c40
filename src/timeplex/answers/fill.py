"""Fill the holes of a table: missing objects, begins and ends, each with a probability and a reason.

What is missing decides what is asked, and what the probability means:

    the object        the best candidate at the row's dates that is not known to hold then; that it is the answer
    begin and end     the span of `when`; that it overlaps the true one
    one of them       the other end, see `durations`; that predicted and true span share at least half (IOU ≥ ½)

An end that is missing may mean that the fact still goes on: `still_going_on` is how likely the KB leaves such an end
open, and the predicted end is the end if it has one. A row that cannot be asked stays empty and says why.

Rows are worked on in blocks: memory grows with the table alone, and the answer for a row depends on no other row.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import narwhals as nw
import numpy as np
import polars as pl

from timeplex.answers.durations import DurationModel, OpenEnds
from timeplex.answers.explain import begin_position, reasons_text
from timeplex.answers.rank import EntityQueries
from timeplex.answers.resolve import Hole, Reader, Rows
from timeplex.errors import InputError
from timeplex.kb import dates, spans
from timeplex.kb.readers import SourceTable, layout_of
from timeplex.kb.readers.rows import role_texts
from timeplex.kb.readers.table import Columns, Layout
from timeplex.kb.store import write_frame
from timeplex.text import counted
from timeplex.typing import Floats, Ints

if TYPE_CHECKING:
    from timeplex.answers.trained import Trained


BLOCK = 2048
"""Rows that are worked on at a time."""

NONE = -1
"""No object is predicted."""

FLOATS = ("probability", "still_going_on")


def fill(trained: "Trained", table: Any, columns: Columns, min_probability: float = 0.0) -> Any:
    """A DataFrame of pandas, polars or pyarrow with the predictions as further columns; the same kind comes back."""
    data, layout = layout_of(table, columns, "the table")
    added = fill_frame(trained, data, layout, min_probability)
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
    trained: "Trained",
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
    reader, filler = Reader(trained.asking), Filler(trained, min_probability)
    parts = [filler.fill(reader.read(texts[start : start + BLOCK])) for start in range(0, len(texts), BLOCK)]
    found = pl.concat(part.frame(trained) for part in parts)
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
    trained: "Trained",
    table: SourceTable,
    output: Path,
    min_probability: float = 0.0,
    *,
    source: str = "the table",
    formulas: bool = False,
) -> FillCounts:
    """Write the table of a file with the predictions as further columns."""
    frame = nw.from_native(table.frame, eager_only=True)
    added = fill_frame(trained, frame, table.layout, min_probability, source)
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

    def frame(self, trained: "Trained") -> pl.DataFrame:
        """As texts and numbers, null where there is nothing."""
        entities, unit = trained.kb.entities, trained.kb.granularity

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
    """Asks a trained run about rows."""

    def __init__(self, trained: "Trained", min_probability: float = 0.0) -> None:
        self.trained, self.min_probability = trained, min_probability
        relations = len(trained.kb.relations)
        self.no_dates = ""  # or why no date can be predicted
        if not trained.run.scorer.predicts_times:
            self.no_dates = f"{trained.run.recipe.title} scores a fact alike at all times: it knows no dates"
        elif all(each.all() for each in spans.is_open(trained.kb.train.span)):
            self.no_dates = "no training fact has a date"
        self.lengths = DurationModel.fit(trained.kb.train, relations)
        self.open_ends = OpenEnds.fit(trained.kb.train, relations, trained.run.timeline.last)

    def fill(self, rows: Rows) -> Filled:
        """The predictions for some rows."""
        found = Filled.empty(rows.reason)
        self._objects(rows, np.flatnonzero(rows.hole == Hole.OBJECT), found)
        dated = {hole: np.flatnonzero(rows.hole == hole) for hole in (Hole.BEGIN, Hole.END, Hole.BOTH)}
        if self.no_dates:
            for row in np.concatenate(list(dated.values())):
                found.reason[row] = self.no_dates
        else:
            self._spans(rows, dated[Hole.BOTH], found)
            self._other_end("begin", rows, dated[Hole.BEGIN], found)
            self._other_end("end", rows, dated[Hole.END], found)
        begin = np.where(rows.begin == spans.OPEN_BEGIN, found.begin, rows.begin)
        asked = np.flatnonzero((rows.hole != Hole.NOTHING) & (rows.end == spans.OPEN_END) & (begin != spans.OPEN_BEGIN))
        found.going_on[asked] = self.open_ends.likely(rows.r[asked], begin[asked])
        self._explain(rows, found)
        return found

    def _objects(self, rows: Rows, which: Ints, found: Filled) -> None:
        """The best object that is not known already."""
        questions = self._questions(rows, which)
        ranked = self.trained.who.rank(questions, 1, hide_known=True)
        found.object[which] = ranked.entity[:, 0]
        found.probability[which] = self.trained.probability(questions, ranked.raw)[:, 0]

    def _questions(self, rows: Rows, which: Ints) -> EntityQueries:
        """Which object at the row's dates; where one end is missing, at the other."""
        first, last = (int(self.trained.run.timeline.instants[at]) for at in (0, -1))
        begin, end = rows.begin[which], rows.end[which]
        begin, end = np.where(begin == spans.OPEN_BEGIN, end, begin), np.where(end == spans.OPEN_END, begin, end)
        span = (np.clip(each, first, last) for each in (begin, end))
        return EntityQueries("object", rows.s[which], rows.r[which], *span)

    def _spans(self, rows: Rows, which: Ints, found: Filled) -> None:
        """The most likely span."""
        ask = rows.s[which], rows.r[which], rows.o[which]
        dated = self.trained.dating.predict(*ask, self.trained.calibration.when)
        found.begin[which], found.end[which] = dated.begin, dated.end
        found.probability[which] = dated.probability

    def _other_end(self, side: Literal["begin", "end"], rows: Rows, which: Ints, found: Filled) -> None:
        """One end, given the other."""
        if len(which) == 0:
            return
        r, known = rows.r[which], (rows.end if side == "begin" else rows.begin)[which]
        probability = self.trained.dating.probabilities(rows.s[which], r, rows.o[which])
        instant, likely = self.lengths.other_end(side, known, r, probability, self.trained.run.timeline)
        (found.begin if side == "begin" else found.end)[which] = instant
        found.probability[which] = likely

    # Why ------------------------------------------------------------------------------------------------------------

    def _explain(self, rows: Rows, found: Filled) -> None:
        """Write the reasons, and take back what is not likely enough."""
        stated = self._stated(rows) | self._stated_objects(rows)
        begin = np.where(rows.begin == spans.OPEN_BEGIN, found.begin, rows.begin)
        when = np.where(begin == spans.OPEN_BEGIN, rows.end, begin)  # an object of which only the end is known
        position = begin_position(self.trained.run.timeline, when, when)
        for row in np.flatnonzero(rows.hole != Hole.NOTHING).tolist():
            if found.reason[row]:
                continue
            hole, r = Hole(rows.hole[row]), int(rows.r[row])
            answer = int(found.object[row] if hole is Hole.OBJECT else rows.o[row])
            if answer == NONE:
                found.reason[row] = "no entity is left that is not known already"
                continue
            if found.probability[row] < self.min_probability:
                self._take_back(row, found)
                continue
            said = [stated[row]] if row in stated else []
            if hole in (Hole.BEGIN, Hole.END):
                said.append(self._lasts(r))
            if hole is not Hole.END:
                said += reasons_text(self.trained, int(rows.s[row]), r, answer, int(position[row]), most=1)
            found.reason[row] = "; ".join(said) or "the model alone: no training fact tells more"

    def _take_back(self, row: int, found: Filled) -> None:
        found.object[row], found.begin[row], found.end[row] = NONE, spans.OPEN_BEGIN, spans.OPEN_END
        found.reason[row] = f"the best answer has a probability of only {found.probability[row]:.2f}"

    def _lasts(self, r: int) -> str:
        median, facts = self.lengths.median(r), int(self.lengths.facts[r])
        length = counted(median, self.trained.kb.granularity.value)
        return f"{self.trained.kb.relations.label(r)} lasts {length} at the median ({counted(facts, 'training fact')})"

    def _stated_objects(self, rows: Rows) -> dict[int, str]:
        """For rows with a missing object: which ones the KB itself states for that time."""
        which = np.flatnonzero(rows.hole == Hole.OBJECT)
        known, entities = self.trained.who.known, self.trained.kb.entities
        query, fact, meets = known.of(self._questions(rows, which))
        names: dict[int, list[str]] = {}
        for row, answer in zip(which[query[meets]].tolist(), known.facts.o[fact[meets]].tolist(), strict=True):
            names.setdefault(row, []).append(entities.label(answer))
        return {row: f"the KB has {', '.join(dict.fromkeys(of))} already" for row, of in names.items()}

    def _stated(self, rows: Rows) -> dict[int, str]:
        """For rows with missing dates: what the KB itself states of them, if it does."""
        facts = self.trained.kb.facts
        which = np.flatnonzero(rows.hole >= Hole.BEGIN)
        query, fact = facts.of_triples(rows.s[which], rows.r[which], rows.o[which])
        row = which[query]
        open_begin, open_end = spans.is_open((facts.begin[fact], facts.end[fact]))
        tells = np.where(rows.hole[row] == Hole.END, ~open_end, ~open_begin)
        tells &= (rows.hole[row] != Hole.END) | (facts.begin[fact] == rows.begin[row])
        asking = self.trained.asking
        return {
            each: f"the KB has {asking.span_text(int(facts.begin[at]), int(facts.end[at]))}"
            for each, at in zip(row[tells][::-1].tolist(), fact[tells][::-1].tolist(), strict=True)
        }
